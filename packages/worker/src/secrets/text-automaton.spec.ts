import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { TextAutomaton } from './text-automaton.js';

function letters(minLength: number, maxLength: number): fc.Arbitrary<string> {
  return fc.string({ unit: fc.constantFrom('a', 'b', 'c', '\uffff'), minLength, maxLength });
}

test('finds at each position the longest text that ends there, in whatever pieces it reads', () => {
  const property = fc.property(
    fc.uniqueArray(letters(4, 9), { minLength: 1, maxLength: 12 }),
    fc.array(letters(0, 20), { maxLength: 6 }),
    (texts, pieces) => {
      const automaton = new TextAutomaton(texts);
      const state = { node: 0, high: 0, low: 0 };
      const all = pieces.join('');
      const found = new Map<number, number>();
      let read = 0;
      for (const piece of pieces) {
        automaton.search(state, piece, 0, piece.length, (end, length) => found.set(read + end, length));
        read += piece.length;
        const begun = automaton.begun(state);
        const lengths = texts.flatMap((text) =>
          Array.from({ length: text.length }, (_, index) => index + 1).filter((length) =>
            all.slice(0, read).endsWith(text.slice(0, length)),
          ),
        );
        assert.equal(begun, Math.max(0, ...lengths), 'the longest beginning');
      }
      for (let end = 0; end <= all.length; end++) {
        const ends = texts.filter((text) => all.slice(0, end).endsWith(text));
        assert.equal(found.get(end) ?? 0, Math.max(0, ...ends.map(({ length }) => length)), `at ${end}`);
      }
    },
  );
  fc.assert(property, { numRuns: 1000 });
});
