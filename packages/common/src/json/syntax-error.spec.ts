import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { test } from 'vitest';
import { syntaxErrorAt } from './syntax-error.js';

for (const [text, at] of [
  ['{"image":"a",}', 13],
  ['{"image":"a" "b":1}', 13],
  ['{"image":', 9],
  ['{"a":[1,2', 9],
  ["{image:'a'}", 1],
  ['{"a":NaN}', 5],
  ['{}{}', 2],
  [' [1, 01]', 6],
  ['[1,]', 3],
  ['{"a"}', 4],
  ['{"a":"b\nc"}', 5],
  ['["\\x"]', 1],
  ['"abc', 0],
  ['  ', 2],
  ['[[]]]', 4],
  [`"${'\\"'.repeat(200_000)}`, 0],
  ['['.repeat(100_000), 100_000],
] as const) {
  test(`${JSON.stringify(text.slice(0, 40))} stops to be JSON at ${at}`, () => {
    assert.equal(syntaxErrorAt(text), at);
  });
}

test('what is before the place can be continued to JSON, and a value that is complete is an error only after its end', () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.nat({ max: 3 }), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      assert.equal(syntaxErrorAt(`${text} ]`), text.length + 1);
    }),
  );
});
