import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { PeriodicPass } from '../database/periodic-pass.js';
import { Log } from '../logging/logger.js';
import { IdempotencyRetentionJob } from './idempotency-retention.job.js';

const EVERY_MS = 10 * 60_000;

/** Runs the retention of idempotency keys now and then, never twice at once. */
@Injectable()
export class IdempotencyRetentionSchedule implements OnModuleDestroy {
  readonly #pass: PeriodicPass;

  constructor(job: IdempotencyRetentionJob, dataSource: DataSource, log: Log) {
    this.#pass = new PeriodicPass(dataSource, log, {
      what: 'idempotency keys',
      unit: 'keys',
      run: (now, stop) => job.runOnce(now, stop),
    });
  }

  /** Begins a pass, unless one is under way. */
  @Interval(EVERY_MS)
  tick(): void {
    this.#pass.begin();
  }

  /** Lets a pass under way finish its batch. */
  onModuleDestroy(): Promise<void> {
    return this.#pass.stop();
  }
}
