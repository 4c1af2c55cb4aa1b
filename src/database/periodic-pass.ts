import type { OnModuleDestroy } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import type { Log } from '../logging/logger.js';
import type { PassMetrics, PassName } from './pass-metrics.js';
import { currentTime } from './sql.js';
import { isDatabaseUnavailable } from './unavailable.js';

/** What a job removes, in the words of the log, and how it does so. */
export interface PassOptions {
  /** Name in the metrics. */
  readonly name: PassName;
  /** Follows "removed old" and "could not remove old". */
  readonly what: string;
  /** Name of the count in the log. */
  readonly unit: string;
  /** How important it is that something was removed; `info` unless given. */
  readonly level?: 'debug' | 'info';
  /** One pass at the database's time; ends between two batches when told to stop. @returns how many it removed */
  readonly run: (now: Date, stop: AbortSignal) => Promise<number>;
}

/**
 * A schedule of passes of a job that removes what is old: never two at once, and logged only when something happened. Who
 * extends it puts an interval on `tick`.
 */
export abstract class PeriodicPass implements OnModuleDestroy {
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  protected constructor(
    private readonly dataSource: DataSource,
    private readonly log: Log,
    private readonly metrics: PassMetrics,
    private readonly options: PassOptions,
  ) {}

  /** Begins a pass, unless one is under way. */
  tick(): void {
    this.#running ??= this.#pass().finally(() => {
      this.#running = undefined;
    });
  }

  /** Lets a pass under way finish its batch. */
  async onModuleDestroy(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async #pass(): Promise<void> {
    const { name, what, unit, level = 'info', run } = this.options;
    try {
      const removed = await run(await currentTime(this.dataSource), this.#stop.signal);
      this.metrics.finished(name, removed);
      if (removed > 0) this.log[level](`removed old ${what}`, { [unit]: removed });
    } catch (error) {
      this.metrics.failed(name);
      if (isDatabaseUnavailable(error)) this.log.warn(`could not remove old ${what} yet`, { error });
      else this.log.error(`could not remove old ${what}`, { error });
    }
  }
}
