import { Injectable, type BeforeApplicationShutdown } from '@nestjs/common';
import { withTimeout } from '@longshore/common/timeout';
import { Clock } from '../common/clock.js';
import { Log } from '../common/logging/logger.js';
import { ApiKeysRepository } from './api-keys.repository.js';

/** Shortest time between two writes about one key, in milliseconds. */
export const USE_INTERVAL_MS = 60_000;

/** How long uses are collected for one write, in milliseconds. */
const COLLECT_MS = 1_000;

/** How long the shutdown waits for the last write, in milliseconds. */
const SHUTDOWN_TIMEOUT_MS = 1_000;

/**
 * Records when keys of the database were last used: at most once a minute per key, several keys in one statement, outside
 * of the requests. A failed write is logged and not repeated.
 */
@Injectable()
export class KeyUsage implements BeforeApplicationShutdown {
  /** The last noted use of each key, for the last minute. */
  readonly #noted = new Map<string, number>();
  #collected = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> | undefined;

  constructor(
    private readonly keys: ApiKeysRepository,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /** @param id of a key in the database */
  note(id: string): void {
    const now = this.clock.now();
    const last = this.#noted.get(id);
    if (last !== undefined && now - last < USE_INTERVAL_MS) return;
    this.#noted.set(id, now);
    this.#collected.set(id, now);
    if (!this.#writing) this.#schedule();
  }

  /** Writes what was collected; resolves when it is written or has failed. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
      if (this.#collected.size > 0) this.#schedule();
    });
    return this.#writing;
  }

  async beforeApplicationShutdown(): Promise<void> {
    // A write in progress does not hold what was collected after its start.
    const flushed = this.flush().then(() => this.flush());
    await withTimeout(SHUTDOWN_TIMEOUT_MS, flushed, undefined);
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    this.#timer ??= setTimeout(() => void this.flush(), COLLECT_MS).unref();
  }

  async #write(): Promise<void> {
    const now = this.clock.now();
    for (const [id, at] of this.#noted) if (now - at >= USE_INTERVAL_MS) this.#noted.delete(id);
    if (this.#collected.size === 0) return;
    const ages = new Map([...this.#collected].map(([id, at]) => [id, now - at]));
    this.#collected = new Map();
    try {
      await this.keys.noteUses(ages);
    } catch (error) {
      this.log.warn('could not write when API keys were last used', { keys: ages.size, error });
    }
  }
}
