/** Entries that one statement reads. */
const STEP = 50;

export interface PageLimits {
  readonly limit: number;
  /** Bytes at which a page ends; its first entry may be larger. */
  readonly maxBytes: number;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly hasMore: boolean;
}

/**
 * Reads a page of bounded bytes in steps, so that the database sends no more than the page and one step. Hot lists have
 * their bound in the statement instead.
 * @param read the next entries after the last one, at most `count`
 * @param bytesOf an entry
 */
export async function readPage<T>(
  { limit, maxBytes }: PageLimits,
  read: (count: number, last: T | undefined) => Promise<readonly T[]>,
  bytesOf: (item: T) => number,
): Promise<Page<T>> {
  const items: T[] = [];
  let bytes = 0;
  for (;;) {
    const count = Math.min(STEP, limit + 1 - items.length);
    const found = await read(count, items.at(-1));
    for (const item of found) {
      bytes += bytesOf(item);
      if (items.length === limit || (items.length > 0 && bytes > maxBytes)) return { items, hasMore: true };
      items.push(item);
    }
    if (found.length < count) return { items, hasMore: false };
  }
}
