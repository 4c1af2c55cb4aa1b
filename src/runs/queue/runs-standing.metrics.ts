import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { DataSource } from 'typeorm';
import { ServiceRegistry } from '../../common/metrics/service-registry.js';
import { SharedReading } from '../../common/metrics/shared-reading.js';
import { OldestPendingRepository } from './oldest-pending.repository.js';
import { RunCountsRepository } from '../counts/run-counts.repository.js';
import { RUN_STATES, type RunState } from '../machine/run-state.js';

/** How the runs stand. */
interface Standing {
  readonly states: Readonly<Record<RunState, number>>;
  /** Seconds; 0 when nothing is pending. */
  readonly oldestPendingAge: number;
}

/**
 * Tells how the runs stand, by two short statements a scrape, however many runs there are. While the database does not
 * answer these gauges are left out, so that nobody takes old numbers for new ones; the page has all the others.
 */
@Injectable()
export class RunsStandingMetrics {
  constructor(
    private readonly dataSource: DataSource,
    private readonly counts: RunCountsRepository,
    private readonly oldestPending: OldestPendingRepository,
    service: ServiceRegistry,
    registry: Registry,
  ) {
    const failures = new Counter({
      name: 'longshore_runs_unread_total',
      help: 'Looks at how the runs stand, made for scrapes, that failed',
      registers: [registry],
    });
    const reading = new SharedReading(
      () => this.#read(),
      () => failures.inc(),
    );
    const registers = [service];
    const runs: Gauge<'state'> = new Gauge({
      name: 'longshore_runs',
      help: 'Runs in each state',
      labelNames: ['state'],
      registers,
      collect: async () => {
        const found = await reading.get();
        runs.reset();
        if (!found) return;
        for (const state of RUN_STATES) runs.set({ state }, found.states[state]);
      },
    });
    const age: Gauge = new Gauge({
      name: 'longshore_oldest_pending_run_age_seconds',
      help: 'Time since the oldest run that is PENDING was created; 0 when none is',
      registers,
      collect: async () => {
        const found = await reading.get();
        if (found) age.set(found.oldestPendingAge);
        else age.remove();
      },
    });
  }

  async #read(): Promise<Standing> {
    const { at, states } = await this.counts.read(this.dataSource, 1);
    const oldest = states.PENDING > 0 ? await this.oldestPending.find(this.dataSource) : null;
    const ageMs = oldest ? at.getTime() - oldest.getTime() : 0;
    return { states, oldestPendingAge: Math.max(0, ageMs) / 1000 };
  }
}
