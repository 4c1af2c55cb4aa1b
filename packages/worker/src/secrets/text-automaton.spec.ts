import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { beginning, TextAutomaton } from './text-automaton.js';

function letters(minLength: number, maxLength: number): fc.Arbitrary<string> {
  return fc.string({ unit: fc.constantFrom('a', 'b', 'c', '\uffff'), minLength, maxLength });
}

test('finds at each position the longest text that ends there, in whatever pieces it reads', () => {
  const property = fc.property(
    fc.uniqueArray(letters(4, 9), { minLength: 1, maxLength: 12 }),
    fc.array(letters(0, 20), { maxLength: 6 }),
    (texts, pieces) => {
      const automaton = new TextAutomaton(texts);
      const state = beginning();
      const all = pieces.join('');
      const found = new Map<number, number>();
      let read = 0;
      for (const piece of pieces) {
        const units = Uint16Array.from(piece, (unit) => unit.charCodeAt(0));
        automaton.search(state, units, 0, units.length, {
          add: (end, text) => found.set(read + end, text),
        });
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
        const [longest] = ends.toSorted((a, b) => b.length - a.length);
        assert.equal(texts[found.get(end) ?? -1], longest, `at ${end}`);
      }
    },
  );
  fc.assert(property, { numRuns: 1000 });
});
