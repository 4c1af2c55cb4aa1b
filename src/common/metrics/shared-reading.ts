import { setTimeout as sleep } from 'node:timers/promises';

/** How long a scrape waits, in milliseconds: well below the timeout of a scraper. */
const WAIT_MS = 1_000;

/** A database query for metrics: concurrent scrapes share one query, and no scrape waits long for it. */
export class SharedReading<T> {
  #reading: Promise<T | null> | undefined;

  /** @param onFailure called once for each query that fails */
  constructor(
    private readonly read: () => Promise<T>,
    private readonly onFailure: () => void = () => undefined,
    private readonly waitMs = WAIT_MS,
  ) {}

  /** The result; null when the query fails or takes too long. */
  async get(): Promise<T | null> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    const stop = new AbortController();
    const timeout = sleep(this.waitMs, null, { signal: stop.signal }).catch(() => null);
    const found = await Promise.race([this.#reading, timeout]);
    stop.abort();
    return found;
  }

  async #read(): Promise<T | null> {
    try {
      return await this.read();
    } catch {
      this.onFailure();
      return null;
    }
  }
}
