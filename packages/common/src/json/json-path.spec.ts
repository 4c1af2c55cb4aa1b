import assert from 'node:assert/strict';
import { test, vi } from 'vitest';
import { JsonPath } from './json-path.js';

/** The position within an empty object. */
function inObject(): JsonPath {
  const path = new JsonPath();
  path.pass('{'.charCodeAt(0));
  return path;
}

test('equal keys get ascending numbers, and no number that another key has', () => {
  const path = inObject();
  const keys = ['***', '***', '***-3', '***', '***', '***-3', 'a', 'a'];
  const unused = keys.map((key) => path.unusedKey(key));
  assert.deepEqual(unused, ['***', '***-2', '***-3', '***-4', '***-5', '***-3-2', 'a', 'a-2']);
});

test('2,000 equal keys are numbered with a number of lookups that is linear in the keys', () => {
  const path = inObject();
  const lookups = [
    vi.spyOn(Set.prototype, 'has'),
    vi.spyOn(Map.prototype, 'has'),
    vi.spyOn(Map.prototype, 'get'),
  ];
  for (let n = 0; n < 2_000; n++) path.unusedKey('***');
  const count = lookups.reduce((sum, { mock }) => sum + mock.calls.length, 0);
  vi.restoreAllMocks();
  assert.ok(count <= 3 * 2_000, `${count} lookups`);
});

test('a long pointer is cut between characters', () => {
  const path = inObject();
  path.enter(JSON.stringify(`${'a'.repeat(198)}😀b`));
  assert.equal(path.toString(false), `/${'a'.repeat(198)}...`);
});
