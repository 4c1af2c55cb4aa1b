import { Injectable } from '@nestjs/common';
import { Interval } from '@nestjs/schedule';
import { DataSource } from 'typeorm';
import { PassMetrics } from '../../database/pass-metrics.js';
import { PeriodicPass } from '../../database/periodic-pass.js';
import { Log } from '../../logging/logger.js';
import { ForgettingPool } from './forgetting-pool.js';

const EVERY_MS = 5 * 60_000;

/** Has the pool forget workers now and then, never twice at once. */
@Injectable()
export class ForgettingSchedule extends PeriodicPass {
  constructor(pool: ForgettingPool, dataSource: DataSource, log: Log, metrics: PassMetrics) {
    super(dataSource, log, metrics, {
      name: 'workers',
      what: 'workers',
      unit: 'workers',
      run: (_now, stop) => pool.forget(stop),
    });
  }

  /** Begins a pass, unless one is under way. */
  @Interval(EVERY_MS)
  override tick(): void {
    super.tick();
  }
}
