import { Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { PassMetrics } from '../database/pass-metrics.js';
import { PeriodicPass } from '../database/periodic-pass.js';
import { Log } from '../logging/logger.js';
import { IdempotencyRetentionJob } from './idempotency-retention.job.js';

const EVERY_MS = 10 * 60_000;

/** Runs the retention of idempotency keys now and then, never twice at once. */
@Injectable()
export class IdempotencyRetentionSchedule extends PeriodicPass {
  constructor(job: IdempotencyRetentionJob, dataSource: DataSource, log: Log, metrics: PassMetrics) {
    super(dataSource, log, metrics, {
      name: 'idempotency_keys',
      what: 'idempotency keys',
      unit: 'keys',
      run: (now, stop) => job.runOnce(now, stop),
    });
  }

  /** Begins a pass, unless one is under way. */
  @Interval(EVERY_MS)
  override tick(): void {
    super.tick();
  }
}
