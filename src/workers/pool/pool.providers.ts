import { Injectable, type OnApplicationBootstrap, type Provider } from '@nestjs/common';
import { withTimeout } from '@longshore/common/timeout';
import { Gauge } from 'prom-client';
import { getRepositoryToken } from '@nestjs/typeorm';
import { DataSource, type Repository } from 'typeorm';
import { Log } from '../../common/logging/logger.js';
import { ServiceRegistry } from '../../common/metrics/metrics.controller.js';
import { scrapedReading } from '../../common/metrics/scraped-reading.js';
import { Settings } from '../../config/settings.js';
import { WorkerAbsenceEntity } from '../../database/entities/worker.entity.js';
import { DatabaseMetrics } from '../../database/database-metrics.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';
import { ReservedConnection } from '../../database/failover/reserved-connection.js';
import { HeartbeatWriter } from './heartbeat-writer.js';
import { MemoryWorkerPool } from './memory-worker-pool.js';
import { SharedWorkerPool } from './shared-worker-pool.js';
import { WorkerDrainsRepository } from './worker-drains.repository.js';
import { ABILITIES } from '../../runs/machine/event-types.js';
import { WORKER_GROUPS, WorkerPool } from './worker-pool.js';

/** Longest wait of a start for the listening connection, in milliseconds. */
const CONNECT_TIMEOUT_MS = 10_000;

/** Whether the pool is in the database: as set, else with several server processes. */
function isShared({ workerPool, workers }: Settings): boolean {
  return workerPool === undefined ? workers > 1 : workerPool === 'shared';
}

/** Registers this process as a user of the shared pool: a process that finds no other one resets the pool. */
@Injectable()
class PoolRegistration implements OnApplicationBootstrap {
  constructor(
    private readonly settings: Settings,
    private readonly notices: CommitNotices,
    private readonly log: Log,
  ) {}

  async onApplicationBootstrap(): Promise<void> {
    if (!isShared(this.settings)) return;
    const opening = this.notices.open().then(() => true);
    const isOpen = await withTimeout(CONNECT_TIMEOUT_MS, opening, false);
    if (!isOpen)
      this.log.warn(
        'could not register as a user of the shared worker pool: a process that starts now may reset it',
      );
  }
}

/** Engines that have series of their own, so that names in heartbeats never make too many. */
const MAX_ENGINES = 20;

/** Counts workers and jobs of launchers with one query each for a scrape; a gauge is absent while its query fails. */
@Injectable()
class PoolMetrics {
  constructor(pool: WorkerPool, registry: ServiceRegistry) {
    const countWorkers = scrapedReading(() => pool.count());
    const workers: Gauge<'state'> = new Gauge({
      name: 'longshore_workers',
      help: 'Registered workers: active, active and draining, active and not claiming, away as they said, stale',
      labelNames: ['state'],
      registers: [registry],
      collect: async () => {
        const found = await countWorkers();
        workers.reset();
        if (!found) return;
        for (const state of WORKER_GROUPS) workers.set({ state }, found[state]);
      },
    });
    const countUnable = scrapedReading(() => pool.countUnable());
    const unable: Gauge<'ability'> = new Gauge({
      name: 'longshore_workers_unable',
      help: 'Active workers whose machines are unable to do something for runs, such as to give them GPUs',
      labelNames: ['ability'],
      registers: [registry],
      collect: async () => {
        const found = await countUnable();
        unable.reset();
        if (!found) return;
        for (const ability of ABILITIES) unable.set({ ability }, found[ability]);
      },
    });
    const listEngines = scrapedReading(() => pool.listEngines(MAX_ENGINES));
    const jobs: Gauge<'engine' | 'state'> = new Gauge({
      name: 'longshore_engine_jobs',
      help: 'Jobs of active launchers in their engines: pending in the engine, running',
      labelNames: ['engine', 'state'],
      registers: [registry],
      collect: async () => {
        const found = await listEngines();
        jobs.reset();
        for (const { name: engine, pending, running } of found ?? []) {
          jobs.set({ engine, state: 'pending' }, pending);
          jobs.set({ engine, state: 'running' }, running);
        }
      },
    });
  }
}

export const POOL_PROVIDERS: Provider[] = [
  WorkerDrainsRepository,
  {
    provide: WorkerPool,
    inject: [
      Settings,
      DataSource,
      WorkerDrainsRepository,
      getRepositoryToken(WorkerAbsenceEntity),
      DatabaseMetrics,
    ],
    useFactory: (
      settings: Settings,
      dataSource: DataSource,
      drains: WorkerDrainsRepository,
      absences: Repository<WorkerAbsenceEntity>,
      metrics: DatabaseMetrics,
    ): WorkerPool | Promise<WorkerPool> => {
      const timeoutMs = settings.workerTimeout * 1000;
      if (!isShared(settings)) return MemoryWorkerPool.open(timeoutMs, drains, absences, settings);
      const connection = new ReservedConnection(dataSource);
      metrics.addPool('heartbeats', connection.dataSource);
      const writer = new HeartbeatWriter(timeoutMs, connection, settings);
      return new SharedWorkerPool(timeoutMs, dataSource, drains, writer);
    },
  },
  PoolRegistration,
  PoolMetrics,
];
