import type { DataSource } from 'typeorm';
import type { Log } from '../logging/logger.js';
import { currentTime } from './sql.js';
import { isDatabaseUnavailable } from './unavailable.js';

/** What a job removes, in the words of the log, and how it does so. */
export interface PassOptions {
  /** Follows "removed old" and "could not remove old". */
  readonly what: string;
  /** Name of the count in the log. */
  readonly unit: string;
  /** How important it is that something was removed; `info` unless given. */
  readonly level?: 'debug' | 'info';
  /** One pass at the database's time; ends between two batches when told to stop. @returns how many it removed */
  readonly run: (now: Date, stop: AbortSignal) => Promise<number>;
}

/** Runs the passes of a job that removes what is old: never two at once, and logs only when something happened. */
export class PeriodicPass {
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(
    private readonly dataSource: DataSource,
    private readonly log: Log,
    private readonly options: PassOptions,
  ) {}

  /** Begins a pass, unless one is under way. */
  begin(): void {
    this.#running ??= this.#pass().finally(() => {
      this.#running = undefined;
    });
  }

  /** Lets a pass under way finish its batch. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #pass(): Promise<void> {
    const { what, unit, level = 'info', run } = this.options;
    try {
      const removed = await run(await currentTime(this.dataSource), this.#stop.signal);
      if (removed > 0) this.log[level](`removed old ${what}`, { [unit]: removed });
    } catch (error) {
      if (isDatabaseUnavailable(error)) this.log.warn(`could not remove old ${what} yet`, { error });
      else this.log.error(`could not remove old ${what}`, { error });
    }
  }
}
