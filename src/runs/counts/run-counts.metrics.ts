import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { DataSource } from 'typeorm';
import { ServiceRegistry } from '../../common/metrics/metrics.controller.js';
import { scrapedReading } from '../../common/metrics/scraped-reading.js';
import { RUN_STATES, type RunState } from '../machine/run-state.js';
import { RunCountsRepository } from './run-counts.repository.js';

interface RunCounts {
  readonly states: Readonly<Record<RunState, number>>;
  readonly oldestPendingAgeMs: number;
}

/**
 * Gauges of the counts of runs, read by two short statements for each scrape. While the database does not respond they
 * are absent instead of out of date.
 */
@Injectable()
export class RunCountsMetrics {
  /** The counts; null when they cannot be read. The gauges of one scrape share a reading. */
  readonly read: () => Promise<RunCounts | null>;

  constructor(
    dataSource: DataSource,
    counts: RunCountsRepository,
    service: ServiceRegistry,
    registry: Registry,
  ) {
    const failures = new Counter({
      name: 'longshore_runs_unread_total',
      help: 'Reads of the run counts for scrapes that failed',
      registers: [registry],
    });
    this.read = scrapedReading(
      async () => {
        const { at, states } = await counts.read(dataSource, 1);
        const oldest = await counts.findOldestPending(dataSource, states.PENDING);
        return { states, oldestPendingAgeMs: oldest ? Math.max(0, at.getTime() - oldest.getTime()) : 0 };
      },
      () => failures.inc(),
    );
    const registers = [service];
    const runs: Gauge<'state'> = new Gauge({
      name: 'longshore_runs',
      help: 'Runs in each state',
      labelNames: ['state'],
      registers,
      collect: async () => {
        const found = await this.read();
        runs.reset();
        if (!found) return;
        for (const state of RUN_STATES) runs.set({ state }, found.states[state]);
      },
    });
    const age: Gauge = new Gauge({
      name: 'longshore_oldest_pending_run_age_seconds',
      help: 'Time since the oldest PENDING run was created; 0 without one',
      registers,
      collect: async () => {
        const found = await this.read();
        if (found) age.set(found.oldestPendingAgeMs / 1000);
        else age.remove();
      },
    });
  }
}
