import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { canonicalJson } from './canonical-json.js';
import type { JsonValue } from './json-value.js';

const read = (text: string): JsonValue => JSON.parse(text);

test('is the same for objects that differ in the order of keys and in white space only', () => {
  assert.equal(
    canonicalJson(read('{"b": [1, {"d": 1, "c": null}], "a": "x"}')),
    canonicalJson(read('{"a":"x","b":[1,{"c":null,"d":1.0}]}')),
  );
});

test('differs for values that differ, odd keys included', () => {
  const texts = [
    '{"__proto__":1}',
    '{}',
    '{"a":null}',
    '[]',
    '[[]]',
    '"1"',
    '1',
    '{"a":[1,2]}',
    '{"a":[2,1]}',
  ];
  assert.equal(new Set(texts.map((text) => canonicalJson(read(text)))).size, texts.length);
});

test('means the value that it was made from', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      assert.deepEqual(read(canonicalJson(read(text))), read(text));
    }),
  );
});
