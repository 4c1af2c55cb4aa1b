import { Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { PassMetrics } from '../database/pass-metrics.js';
import { PeriodicPass } from '../database/periodic-pass.js';
import { Log } from '../logging/logger.js';
import { LogRemovalJob } from './log-removal.job.js';

const EVERY_MS = 5 * 60_000;

/** Removes the logs of removed runs now and then, never twice at once. */
@Injectable()
export class LogRemovalSchedule extends PeriodicPass {
  constructor(job: LogRemovalJob, dataSource: DataSource, log: Log, metrics: PassMetrics) {
    super(dataSource, log, metrics, {
      name: 'logs',
      what: 'logs',
      unit: 'runs',
      run: (now, stop) => job.runOnce(now, stop),
    });
  }

  /** Begins a pass, unless one is under way. */
  @Interval(EVERY_MS)
  override tick(): void {
    super.tick();
  }
}
