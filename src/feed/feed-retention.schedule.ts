import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { currentTime } from '../database/sql.js';
import { isDatabaseUnavailable } from '../database/unavailable.js';
import { Log } from '../logging/logger.js';
import { FeedRetention } from './feed-retention.js';

const EVERY_MS = 5 * 60_000;

/** Runs the feed's retention now and then, never twice at once. */
@Injectable()
export class FeedRetentionSchedule implements OnModuleDestroy {
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(
    private readonly retention: FeedRetention,
    private readonly dataSource: DataSource,
    private readonly log: Log,
  ) {}

  /** Begins a pass, unless one is under way. */
  @Interval(EVERY_MS)
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
    try {
      const { entries } = await this.retention.runOnce(await currentTime(this.dataSource), this.#stop.signal);
      if (entries > 0) this.log.info('removed old feed entries', { entries });
    } catch (error) {
      if (isDatabaseUnavailable(error)) this.log.warn('could not remove old feed entries yet', { error });
      else this.log.error('could not remove old feed entries', { error });
    }
  }
}
