import { setTimeout as sleep } from 'node:timers/promises';

/** How long one who asks waits, in milliseconds: a scrape is to have its page long before its scraper gives up. */
const WAIT_MS = 1_000;

/**
 * Something that costs a look at the database and that scrapes ask for: one look for all who ask at the same time, never
 * two at once, and never waited for longer than a moment.
 */
export class SharedReading<T> {
  #underWay: Promise<T | null> | undefined;

  /**
   * @param read looks it up
   * @param onFailure told of each look that failed
   */
  constructor(
    private readonly read: () => Promise<T>,
    private readonly onFailure: () => void = () => undefined,
    private readonly waitMs = WAIT_MS,
  ) {}

  /** What is found; null when that fails or takes too long. */
  async get(): Promise<T | null> {
    this.#underWay ??= this.#look().finally(() => {
      this.#underWay = undefined;
    });
    const giveUp = new AbortController();
    const late = sleep(this.waitMs, null, { signal: giveUp.signal }).catch(() => null);
    const found = await Promise.race([this.#underWay, late]);
    giveUp.abort();
    return found;
  }

  async #look(): Promise<T | null> {
    try {
      return await this.read();
    } catch {
      this.onFailure();
      return null;
    }
  }
}
