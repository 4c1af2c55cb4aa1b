import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { canonicalJson, compareNumbers, isSameJson } from './canonical-json.js';
import { changeable, lazyJson, readExactly } from './json-text.js';
import type { JsonValue } from './json-value.js';

const read = (text: string): JsonValue => JSON.parse(text);
const readChangeable = (text: string): JsonValue => Object(changeable(readExactly(text)));

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

test('compares numbers by their exact decimal value', () => {
  const same = ['[1]', '[1.0]', '[1e0]', '[0.1e1]', '[10e-1]', '[1E+00]'];
  for (const text of same) assert.equal(canonicalJson(lazyJson(text)), '[1]');
  const zeros = ['[0]', '[-0]', '[0.0]', '[-0e400]'];
  for (const text of zeros) assert.equal(canonicalJson(lazyJson(text)), '[0]');
  assert.equal(canonicalJson(lazyJson('{"b":1e400,"a":{"x":2.50}}')), '{"a":{"x":2.5},"b":1e400}');
  assert.equal(
    canonicalJson(lazyJson('[12345678901234567890e380]')),
    canonicalJson(lazyJson('[1234567890123456789e381]')),
  );
  const others = [
    '12345678901234567890',
    '12345678901234567891',
    '1e400',
    '1e401',
    '-1e400',
    '1e-400',
    '0.1',
    '0.10000000000000000001',
    '1e99999999999999999999',
  ];
  assert.equal(new Set(others.map((text) => canonicalJson(lazyJson(`[${text}]`)))).size, others.length);
});

test('compares the numbers of an object that was changed', () => {
  assert.equal(canonicalJson(readChangeable('{"n":1.0}')), '{"n":1}');
  assert.notEqual(
    canonicalJson(readChangeable('{"n":12345678901234567890}')),
    canonicalJson(readChangeable('{"n":12345678901234567891}')),
  );
  const changed = Object.assign(Object(readChangeable('{"n":12345678901234567890}')), { n: 2 });
  assert.equal(canonicalJson(changed), '{"n":2}');
});

test('compares numbers with long exponents as text, in linear time', () => {
  const digits = '9'.repeat(3_000_000);
  // Quadratic code would take hours.
  const texts = [`1e${digits}`, `1e${digits}9`, `1e-${digits}`, `2e${digits}`, `${digits}e${digits}`, digits];
  assert.equal(new Set(texts.map((text) => canonicalJson(lazyJson(`[${text}]`)))).size, texts.length);
});

test('orders numbers by their exact decimal value', () => {
  const ordered = [
    '-1e99999999999999999999',
    '-1e400',
    '-12345678901234567891',
    '-12345678901234567890.5',
    '-2',
    '-1e-400',
    '0',
    '1e-99999999999999999999',
    '1e-400',
    '0.1',
    '0.10000000000000000001',
    '2',
    '10',
    '12345678901234567890',
    '12345678901234567890.5',
    '1e400',
    '1e99999999999999999999',
  ];
  for (const [left, a] of ordered.entries()) {
    for (const [right, b] of ordered.entries()) {
      assert.equal(Math.sign(compareNumbers(a, b)), Math.sign(left - right), `${a} ${b}`);
    }
  }
  for (const [a, b] of [
    ['1', '1.0'],
    ['10', '1e1'],
    ['0', '-0.0'],
    ['0e99999999999999999999', '0'],
  ] as const) {
    assert.equal(compareNumbers(a, b), 0);
  }
});

test('tells whether two texts are the same value', () => {
  assert.equal(isSameJson('{"a": 1.0, "b": [2]}', '{"b":[2.00],"a":1}'), true);
  assert.equal(isSameJson('12345678901234567890', '12345678901234567891'), false);
  assert.equal(isSameJson('"1"', '1'), false);
});
