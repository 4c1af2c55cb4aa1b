import { Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { PassMetrics } from '../../database/pass-metrics.js';
import { PeriodicPass } from '../../database/periodic-pass.js';
import { Log } from '../../logging/logger.js';
import { RunDemandRollUp } from './run-demand.roll-up.js';

const EVERY_MS = 30_000;

/** Runs the summing up of the counts by shape now and then, never twice at once. */
@Injectable()
export class RunDemandSchedule extends PeriodicPass {
  constructor(job: RunDemandRollUp, dataSource: DataSource, log: Log, metrics: PassMetrics) {
    super(dataSource, log, metrics, {
      name: 'run_demand',
      what: 'counts of pending runs by the second',
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
