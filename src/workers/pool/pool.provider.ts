import type { FactoryProvider } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { DatabaseMetrics } from '../../database/database-metrics.js';
import { ReservedConnection } from '../../database/reserved-connection.js';
import { Settings } from '../../config/settings.js';
import { PrunablePool } from './prunable-pool.js';
import { MemoryWorkerPool } from './memory-worker-pool.js';
import { poolKindOf } from './pool-kind.js';
import { SharedPoolRepository } from './shared-pool.repository.js';
import { SharedWorkerPool } from './shared-worker-pool.js';
import { WorkerDrainsRepository } from './worker-drains.repository.js';

/** The pool that the settings ask for. */
export const POOL_PROVIDER: FactoryProvider<PrunablePool> = {
  provide: PrunablePool,
  inject: [Settings, DataSource, SharedPoolRepository, WorkerDrainsRepository, DatabaseMetrics],
  useFactory: (
    settings: Settings,
    dataSource: DataSource,
    repository: SharedPoolRepository,
    drains: WorkerDrainsRepository,
    metrics: DatabaseMetrics,
  ): PrunablePool | Promise<PrunablePool> => {
    const timeoutMs = settings.workerTimeout * 1000;
    if (poolKindOf(settings) === 'memory') return MemoryWorkerPool.open(timeoutMs, drains);
    const connection = new ReservedConnection(dataSource);
    metrics.addPool('heartbeats', connection.dataSource);
    return new SharedWorkerPool(timeoutMs, dataSource, repository, drains, connection);
  },
};
