import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { currentTime } from '../database/sql.js';
import { isDatabaseUnavailable } from '../database/unavailable.js';
import { Log } from '../logging/logger.js';
import { IdempotencyRetentionJob } from './idempotency-retention.job.js';

const EVERY_MS = 10 * 60_000;

/** Runs the retention of idempotency keys now and then, never twice at once. */
@Injectable()
export class IdempotencyRetentionSchedule implements OnModuleDestroy {
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;

  constructor(
    private readonly job: IdempotencyRetentionJob,
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
      const keys = await this.job.runOnce(await currentTime(this.dataSource), this.#stop.signal);
      if (keys > 0) this.log.info('removed old idempotency keys', { keys });
    } catch (error) {
      if (isDatabaseUnavailable(error)) this.log.warn('could not remove old idempotency keys yet', { error });
      else this.log.error('could not remove old idempotency keys', { error });
    }
  }
}
