import type { FileStore, StoredObject } from '../../stores/file-store.js';

/** Objects that one question to the store lists. */
const LISTED = 1_000;

/** All objects below a prefix, in pages. */
export async function* pagesOf(store: FileStore, prefix: string): AsyncIterable<readonly StoredObject[]> {
  let after: string | undefined;
  do {
    const listed = await store.list(prefix, { limit: LISTED, ...(after !== undefined && { after }) });
    yield listed;
    after = listed.length < LISTED ? undefined : listed.at(-1)?.key;
  } while (after !== undefined);
}
