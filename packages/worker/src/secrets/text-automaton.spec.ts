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
      let node = 0;
      const all = pieces.join('');
      const found = new Map<number, number>();
      let read = 0;
      for (const piece of pieces) {
        node = automaton.search(node, piece, 0, piece.length, {
          add: (end, text) => found.set(read + end, text),
        });
        read += piece.length;
        const begun = automaton.begun(node);
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

test('finds a short and a long text wherever they are in one of 70,000 units', () => {
  const long = 'ab'.repeat(20_000);
  const automaton = new TextAutomaton(['cdefg', long]);
  for (let before = 16_370; before < 16_400; before++) {
    const ends: number[] = [];
    const text = `${'x'.repeat(before)}cdefg${'x'.repeat(before)}${long}`;
    automaton.search(0, text, 10, text.length, { add: (end) => ends.push(end) });
    assert.deepEqual(ends, [before + 5, text.length]);
  }
});
