import assert from 'node:assert/strict';
import { test } from 'vitest';
import { placeProblem } from './container-places.js';

test('a run has nothing at the root of its container, in folders of others, or at a path with other than plain parts', () => {
  const reserved = [
    '/',
    '/dev',
    '/dev/null',
    '/proc/self/fd/7',
    '/sys',
    '/longshore/a',
    '/a/../dev',
    '/a//b',
    '/a/.',
    'a',
    '',
  ];
  assert.deepEqual(
    [...reserved, '/data', '/devices', '/a/dev', '/..a/b'].filter((path) => placeProblem(path) !== null),
    reserved,
  );
});
