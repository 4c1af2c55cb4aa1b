import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { inBatches, paced } from '../../database/sql/in-batches.js';
import { IdempotencyRepository } from './idempotency.repository.js';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../../common/scheduling/scheduled-job.js';

/** Milliseconds for which a key is kept: twice what the API promises. */
export const KEEP_KEYS_MS = 48 * 60 * 60 * 1000;

/** Keys that one statement removes, at most. */
const KEYS_PER_BATCH = 1000;

@Injectable()
export class IdempotencyRetentionJob {
  constructor(
    private readonly dataSource: DataSource,
    private readonly keys: IdempotencyRepository,
  ) {}

  @ScheduledJob({
    name: 'idempotency_key_retention',
    description: 'removes idempotency keys older than two days',
    ...RETENTION,
    everyMs: 10 * MINUTE,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.runOnce(await now(), stop);
  }

  /** One pass; several processes may run it at the same time. @returns how many keys were removed */
  runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const before = new Date(now.getTime() - KEEP_KEYS_MS);
    return inBatches(KEYS_PER_BATCH, stop, () =>
      paced(stop, () => this.keys.removeBefore(this.dataSource.manager, before, KEYS_PER_BATCH)),
    );
  }
}
