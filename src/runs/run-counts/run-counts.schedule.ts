import { Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { PassMetrics } from '../../database/pass-metrics.js';
import { PeriodicPass } from '../../database/periodic-pass.js';
import { Log } from '../../logging/logger.js';
import { RunCountsRollUp } from './run-counts.roll-up.js';

const EVERY_MS = 2 * 60_000;

/** Runs the summing up of counts now and then, never twice at once. */
@Injectable()
export class RunCountsSchedule extends PeriodicPass {
  constructor(job: RunCountsRollUp, dataSource: DataSource, log: Log, metrics: PassMetrics) {
    super(dataSource, log, metrics, {
      name: 'run_counts',
      what: 'counts of runs by the minute',
      unit: 'rows',
      level: 'debug',
      run: (now, stop) => job.runOnce(now, stop),
    });
  }

  /** Begins a pass, unless one is under way. */
  @Interval(EVERY_MS)
  override tick(): void {
    super.tick();
  }
}
