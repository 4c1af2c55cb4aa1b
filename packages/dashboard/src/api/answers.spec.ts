import assert from 'node:assert/strict';
import { test } from 'vitest';
import { unwrapPages } from './answers.js';

/** A list of numbers whose pages end after two rows, and the cursors that were asked for. */
function listOf(count: number): { read: Parameters<typeof unwrapPages<number>>[0]; cursors: unknown[] } {
  const cursors: unknown[] = [];
  return {
    cursors,
    read: ({ after }) => {
      cursors.push(after);
      const from = after === undefined ? 0 : Number(after) + 1;
      const data = [from, from + 1].filter((row) => row < count);
      const headers = new Headers(from + 2 < count ? { Link: '</next>; rel="next"' } : {});
      return Promise.resolve({ data, response: new Response(null, { headers }) });
    },
  };
}

test('reads a list whose pages end early to its end', async () => {
  const { read, cursors } = listOf(5);
  assert.deepEqual(await unwrapPages(read, String), [0, 1, 2, 3, 4]);
  assert.deepEqual(cursors, [undefined, '1', '3']);
});

test('stops when there are enough rows', async () => {
  const { read, cursors } = listOf(100);
  assert.deepEqual(await unwrapPages(read, String, 3), [0, 1, 2, 3]);
  assert.equal(cursors.length, 2);
});

test('is content with an empty list', async () => {
  assert.deepEqual(await unwrapPages(listOf(0).read, String), []);
});
