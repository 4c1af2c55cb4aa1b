import { Injectable, type BeforeApplicationShutdown } from '@nestjs/common';
import { Log } from '../common/logging/logger.js';
import { ApiKeysRepository } from './api-keys.repository.js';
import { MonotonicClock } from './monotonic-clock.js';

/** Shortest time between two writes about one key, in milliseconds. */
export const USE_INTERVAL_MS = 60_000;

/** How long uses are gathered before they are written together, in milliseconds. */
const GATHER_MS = 1_000;

/** Longest that the end of the process waits for the last write, in milliseconds. */
const GOODBYE_MS = 1_000;

/**
 * Writes down when keys of the database were last used: at most once a minute per key, several keys in one
 * statement, beside the requests and never in their way. What cannot be written is logged and left for the next use.
 */
@Injectable()
export class KeyUsage implements BeforeApplicationShutdown {
  /** When each key was used last, as far as it was noted in the last minute. */
  readonly #noted = new Map<string, number>();
  #gathered = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  constructor(
    private readonly keys: ApiKeysRepository,
    private readonly clock: MonotonicClock,
    private readonly log: Log,
  ) {}

  /** Takes note of a use. @param id of a key in the database */
  note(id: string): void {
    const now = this.clock.now();
    const last = this.#noted.get(id);
    if (last !== undefined && now - last < USE_INTERVAL_MS) return;
    this.#noted.set(id, now);
    this.#gathered.set(id, now);
    if (!this.#writing) this.#schedule();
  }

  /** Writes what was gathered; resolves when it is written or given up. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
      if (this.#gathered.size > 0) this.#schedule();
    });
    return this.#writing;
  }

  async beforeApplicationShutdown(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const patience = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, GOODBYE_MS);
    });
    // A write that is under way does not hold what came after it began.
    const written = this.flush().then(() => this.flush());
    await Promise.race([written, patience]);
    clearTimeout(timer);
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), GATHER_MS).unref();
  }

  async #write(): Promise<void> {
    const now = this.clock.now();
    for (const [id, at] of this.#noted) if (now - at >= USE_INTERVAL_MS) this.#noted.delete(id);
    if (this.#gathered.size === 0) return;
    const ages = new Map([...this.#gathered].map(([id, at]) => [id, now - at]));
    this.#gathered = new Map();
    try {
      await this.keys.noteUses(ages);
    } catch (error) {
      this.log.warn('could not write when API keys were last used', { keys: ages.size, error });
    }
  }
}
