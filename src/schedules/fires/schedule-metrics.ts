import { Injectable } from '@nestjs/common';
import { Counter, Gauge } from 'prom-client';
import { ServiceRegistry } from '../../common/metrics/metrics.controller.js';
import { scrapedReading } from '../../common/metrics/scraped-reading.js';
import { FIRE_OUTCOMES } from '../../database/entities/schedule.entity.js';
import { ScheduleRepository } from '../schedule.repository.js';
import type { NewFire } from './schedule-ledger.js';

/** Counts of what became of times, and how late the schedules are. */
@Injectable()
export class ScheduleMetrics {
  private readonly fires: Counter<'outcome'>;

  constructor(registry: ServiceRegistry, schedules: ScheduleRepository) {
    this.fires = new Counter({
      name: 'longshore_schedule_fires_total',
      help: 'Times of schedules that this process accounted for, by what became of them',
      labelNames: ['outcome'],
      registers: [registry],
    });
    for (const outcome of FIRE_OUTCOMES) this.fires.inc({ outcome }, 0);
    const readLag = scrapedReading(() => schedules.nextDueInMs());
    const lag = new Gauge({
      name: 'longshore_schedule_lag_seconds',
      help: 'For how long the schedule has been due that waits longest to be fired; 0 if none is due',
      registers: [registry],
      collect: async () => {
        const inMs = await readLag();
        lag.set(Math.max(0, -(inMs ?? 0)) / 1000);
      },
    });
  }

  fired(fires: readonly NewFire[]): void {
    for (const { outcome, count } of fires) this.fires.inc({ outcome }, count);
  }
}
