import { withTimeout } from '@longshore/common/timeout';

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
  get(): Promise<T | null> {
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined;
    });
    return withTimeout(this.waitMs, this.#reading, null);
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
