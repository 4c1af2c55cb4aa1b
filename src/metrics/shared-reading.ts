import { setTimeout as sleep } from 'node:timers/promises';

/** For how long a reading is given to others who ask, and how long one who asks waits for it, in milliseconds. */
export interface ReadingTimes {
  readonly keep: number;
  readonly wait: number;
}

const USUAL_TIMES: ReadingTimes = { keep: 1_000, wait: 1_000 };

/**
 * Something that costs a look at the database and that scrapes ask for: looked up once for all who ask at about the same
 * time, never twice at once, and never waited for longer than a moment.
 */
export class SharedReading<T> {
  #latest: { readonly value: T; readonly at: number } | undefined;
  #underWay: Promise<T | null> | undefined;

  /**
   * @param read looks it up
   * @param onFailure told of each look that failed
   */
  constructor(
    private readonly read: () => Promise<T>,
    private readonly onFailure: () => void = () => undefined,
    private readonly times: ReadingTimes = USUAL_TIMES,
  ) {}

  /** What was found a moment ago or is found now; null when that failed or takes too long. */
  async get(): Promise<T | null> {
    const { keep, wait } = this.times;
    if (this.#latest && performance.now() - this.#latest.at < keep) return this.#latest.value;
    this.#underWay ??= this.#look().finally(() => {
      this.#underWay = undefined;
    });
    const giveUp = new AbortController();
    const late = sleep(wait, null, { signal: giveUp.signal }).catch(() => null);
    const found = await Promise.race([this.#underWay, late]);
    giveUp.abort();
    return found;
  }

  async #look(): Promise<T | null> {
    try {
      const value = await this.read();
      this.#latest = { value, at: performance.now() };
      return value;
    } catch {
      this.onFailure();
      return null;
    }
  }
}
