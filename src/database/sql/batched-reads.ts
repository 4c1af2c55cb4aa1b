import DataLoader from 'dataloader';

/** Keys that one statement reads. */
const MAX_KEYS = 200;

/**
 * Answers reads of concurrent requests with few statements. The keys of one turn of the event loop form a batch; while
 * as many statements as allowed are under way, the next batch collects keys. A key is read by a statement that begins after
 * `load` was called, so a request sees every commit that was acknowledged before it arrived; loads of one key until then
 * share its value. Nothing is cached.
 */
export class BatchedReads<K, V> {
  readonly #loader: DataLoader<K, V | undefined>;
  /** The keys of statements that have not begun. */
  readonly #collected = new Map<K, Promise<V | undefined>>();
  readonly #waiting: (() => void)[] = [];
  #free: number;

  /**
   * @param read the values by key, without keys that have none; when it fails, all loads of its keys fail with its error
   * @param concurrent how many statements may be under way at the same time
   */
  constructor(read: (keys: readonly K[]) => Promise<ReadonlyMap<K, V>>, concurrent = 2) {
    this.#free = concurrent;
    const readAndRelease = async (keys: readonly K[]): Promise<(V | undefined)[]> => {
      for (const key of keys) this.#collected.delete(key);
      try {
        const values = await read(keys);
        return keys.map((key) => values.get(key));
      } finally {
        this.#release();
      }
    };
    this.#loader = new DataLoader(readAndRelease, {
      cache: false,
      maxBatchSize: MAX_KEYS,
      batchScheduleFn: (dispatch) => this.#schedule(dispatch),
    });
  }

  /** Reads the value of a key; undefined when it has none. */
  load(key: K): Promise<V | undefined> {
    const collected = this.#collected.get(key);
    if (collected !== undefined) return collected;
    const value = this.#loader.load(key);
    this.#collected.set(key, value);
    return value;
  }

  #schedule(dispatch: () => void): void {
    if (this.#free === 0) {
      this.#waiting.push(dispatch);
      return;
    }
    this.#free -= 1;
    // Runs after the requests that arrived in the same turn.
    setImmediate(dispatch);
  }

  #release(): void {
    const next = this.#waiting.shift();
    if (next) next();
    else this.#free += 1;
  }
}
