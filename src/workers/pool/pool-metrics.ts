import { Injectable } from '@nestjs/common';
import { Gauge } from 'prom-client';
import { ServiceRegistry } from '../../common/metrics/service-registry.js';
import { SharedReading } from '../../common/metrics/shared-reading.js';
import { WORKER_GROUPS, WorkerPool } from './worker-pool.js';

/** Tells how many workers there are, by one short look a scrape. While that fails the gauge is left out. */
@Injectable()
export class PoolMetrics {
  constructor(pool: WorkerPool, service: ServiceRegistry) {
    const reading = new SharedReading(() => pool.count());
    const workers: Gauge<'state'> = new Gauge({
      name: 'longshore_workers',
      help: 'Registered workers: active and taking runs, active and draining, silent for too long',
      labelNames: ['state'],
      registers: [service],
      collect: async () => {
        const found = await reading.get();
        workers.reset();
        if (!found) return;
        for (const state of WORKER_GROUPS) workers.set({ state }, found[state]);
      },
    });
  }
}
