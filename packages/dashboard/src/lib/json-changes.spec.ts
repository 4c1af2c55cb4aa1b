import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { jsonChanges } from './json-changes.js';

describe('jsonChanges', () => {
  it('finds nothing between equal values', () => {
    assert.deepEqual(jsonChanges({ a: [1, { b: null }], c: '' }, { c: '', a: [1, { b: null }] }), []);
  });

  it('names what was added, removed and changed, by its place', () => {
    const before = { image: 'a', inputs: { old: { type: 'string' }, n: { type: 'integer', default: 0 } } };
    const after = { image: 'b', inputs: { n: { type: 'integer', default: null }, 'a.b': { type: 'x' } } };
    assert.deepEqual(jsonChanges(before, after), [
      { kind: 'changed', path: 'image', before: 'a', after: 'b' },
      { kind: 'removed', path: 'inputs.old', before: { type: 'string' }, after: undefined },
      { kind: 'changed', path: 'inputs.n.default', before: 0, after: null },
      { kind: 'added', path: 'inputs.a.b', before: undefined, after: { type: 'x' } },
    ]);
  });

  it('takes a value of another kind for a changed one', () => {
    for (const [left, right] of [
      [{}, []],
      [null, {}],
      [{ a: 1 }, 'a'],
      [0, false],
      ['', null],
    ]) {
      assert.deepEqual(jsonChanges({ v: left }, { v: right }), [
        { kind: 'changed', path: 'v', before: left, after: right },
      ]);
    }
  });

  it('compares lists by their places', () => {
    assert.deepEqual(jsonChanges({ l: [1, 2] }, { l: [1, 3, 4] }), [
      { kind: 'changed', path: 'l.1', before: 2, after: 3 },
      { kind: 'added', path: 'l.2', before: undefined, after: 4 },
    ]);
  });
});
