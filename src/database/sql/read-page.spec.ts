import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { readPage, type Page } from './read-page.js';

/** Entries of these bytes, read like rows of a table. */
function list(sizes: readonly number[], limits: { limit: number; maxBytes: number }): Promise<Page<Entry>> {
  const entries = sizes.map((bytes, at) => ({ at, bytes }));
  const read = async (count: number, last: Entry | undefined): Promise<Entry[]> => {
    assert.ok(count <= 50, 'a step is bounded');
    const from = last === undefined ? 0 : last.at + 1;
    return entries.slice(from, from + count);
  };
  return readPage(limits, read, ({ bytes }) => bytes);
}

interface Entry {
  readonly at: number;
  readonly bytes: number;
}

describe('a page read in steps', () => {
  const ofOnes = Array.from({ length: 120 }, () => 1);

  for (const [title, sizes, limit, maxBytes, length, hasMore] of [
    ['is empty without entries', [], 10, 10, 0, false],
    ['has all entries of a list that fits', ofOnes, 1000, 1000, 120, false],
    ['ends at its limit', ofOnes, 119, 1000, 119, true],
    ['has no more when the limit is the number of entries', ofOnes, 120, 1000, 120, false],
    ['ends before the entry that would exceed its bytes', ofOnes, 1000, 70, 70, true],
    ['has its first entry whatever the size', [100, 1], 1000, 10, 1, true],
    ['may be filled to the last byte', [5, 5], 1000, 10, 2, false],
  ] as const) {
    test(title, async () => {
      const page = await list(sizes, { limit, maxBytes });
      assert.deepEqual(
        page.items.map(({ at }) => at),
        Array.from({ length }, (_, i) => i),
      );
      assert.equal(page.hasMore, hasMore);
    });
  }
});
