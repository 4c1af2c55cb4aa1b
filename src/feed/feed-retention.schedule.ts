import { Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { PassMetrics } from '../database/pass-metrics.js';
import { PeriodicPass } from '../database/periodic-pass.js';
import { Log } from '../logging/logger.js';
import { FeedRetention } from './feed-retention.js';

const EVERY_MS = 5 * 60_000;

/** Runs the feed's retention now and then, never twice at once. */
@Injectable()
export class FeedRetentionSchedule extends PeriodicPass {
  constructor(job: FeedRetention, dataSource: DataSource, log: Log, metrics: PassMetrics) {
    super(dataSource, log, metrics, {
      name: 'feed',
      what: 'feed entries',
      unit: 'entries',
      run: async (now, stop) => (await job.runOnce(now, stop)).entries,
    });
  }

  /** Begins a pass, unless one is under way. */
  @Interval(EVERY_MS)
  override tick(): void {
    super.tick();
  }
}
