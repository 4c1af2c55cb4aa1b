import assert from 'node:assert/strict';
import { test } from 'vitest';
import { parsePattern } from './pattern.js';

test.each([
  ['/out/*.png', '/out', ['a.png', '.png', 'ü.png'], ['a.jpg', 'b/a.png', 'png']],
  [
    '/out/run-?/loss.csv',
    '/out',
    ['run-1/loss.csv'],
    ['run-12/loss.csv', 'run-/loss.csv', 'run-1/x/loss.csv'],
  ],
  ['/out/**', '/out', ['a', 'a/b/c'], []],
  ['/out/**/*.pt', '/out', ['a.pt', 'x/y/a.pt'], ['a.ptx', 'x/a.p']],
  ['/out/a*b*c', '/out', ['abc', 'aXbYbZc'], ['abcd', 'ac', 'a/b/c']],
  ['/a/b?/**/c/*', '/a', ['b1/c/x', 'b1/q/r/c/x'], ['b/c/x', 'b1/c', 'b1/c/x/y']],
  ['/*', '/', ['a'], ['a/b']],
])('%s gives files below %s by names', (pattern, folder, matching, others) => {
  const parsed = parsePattern(pattern);
  assert.equal(parsed.folder, folder);
  assert.deepEqual([...matching, ...others].filter(parsed.matches), matching);
});

test('a pattern of many stars is not tried in all ways', () => {
  const { matches } = parsePattern(`/out/${'*a'.repeat(200)}b`);
  assert.equal(matches('a'.repeat(255)), false);
});
