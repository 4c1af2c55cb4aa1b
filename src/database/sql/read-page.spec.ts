import assert from 'node:assert/strict';
import { test } from 'vitest';
import { readPage } from './read-page.js';

for (const [title, sizes, limit, maxBytes, length, hasMore] of [
  ['is read in bounded steps up to its limit', Array.from({ length: 120 }, () => 1), 119, 1000, 119, true],
  ['has no more when the limit is the number of entries', [1, 1, 1], 3, 1000, 3, false],
  ['has its first entry whatever the size', [100, 1], 1000, 10, 1, true],
  ['may be filled to the last byte', [5, 5], 1000, 10, 2, false],
] as const) {
  test(`a page ${title}`, async () => {
    const read = async (count: number, last = -1): Promise<number[]> => {
      assert.ok(count <= 50, 'a step is bounded');
      return [...sizes.keys()].slice(last + 1, last + 1 + count);
    };
    const page = await readPage({ limit, maxBytes }, read, (at) => sizes[at] ?? 0);
    assert.deepEqual(page, { items: [...sizes.keys()].slice(0, length), hasMore });
  });
}
