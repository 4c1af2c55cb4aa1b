import type { DataSource } from 'typeorm';
import { WorkerAbsenceEntity, WorkerDrainEntity } from '../../../src/database/entities/worker.entity.js';
import { HeartbeatWriter } from '../../../src/workers/pool/heartbeat-writer.js';
import { MemoryWorkerPool } from '../../../src/workers/pool/memory-worker-pool.js';
import { SharedWorkerPool } from '../../../src/workers/pool/shared-worker-pool.js';
import { WorkerDrainsRepository } from '../../../src/workers/pool/worker-drains.repository.js';
import type { Heartbeat, PoolLimits, RunningOp, WorkerPool } from '../../../src/workers/pool/worker-pool.js';

/** Author of drains. */
export const ADMIN = { name: 'admin' };

/** Limits that a test does not reach. */
export const POOL_LIMITS: PoolLimits = {
  maxWorkers: 1_000_000,
  maxWorkersPerKey: 1_000_000,
  maxWorkerBytes: 1_048_576,
};

/** A pool whose time a test can let pass. */
export interface PoolBench {
  readonly pool: WorkerPool;
  /** Time goes on by so many milliseconds. */
  pass(ms: number): Promise<void>;
  /** What a restart of the service leaves: a new pool with the same drains. */
  restart(): Promise<WorkerPool>;
  /** Forgets everything, drains too. */
  clear(): Promise<void>;
}

/** A heartbeat of a small worker; `runs` are the ids of the runs it reports, none when left out. */
export function beat(id: string, runs?: readonly string[], more: Partial<Heartbeat> = {}): Heartbeat {
  return {
    id,
    cpuCores: 1,
    ramMb: 1,
    gpus: [],
    tags: [],
    capabilities: [],
    engine: null,
    containerEngine: null,
    notClaiming: [],
    unable: [],
    ...(runs && { runningOps: runs.map(reported) }),
    ...more,
  };
}

function reported(id: string): RunningOp {
  return { id, image: 'i', inputs: {}, constraints: {} };
}

/** The pool in memory, by a clock of the test's. */
export async function memoryBench(
  dataSource: DataSource,
  timeoutMs: number,
  limits = POOL_LIMITS,
): Promise<PoolBench> {
  let now = Date.parse('2026-01-01T00:00:00.000Z');
  const open = (): Promise<WorkerPool> =>
    MemoryWorkerPool.open(
      timeoutMs,
      new WorkerDrainsRepository(dataSource.getRepository(WorkerDrainEntity)),
      dataSource.getRepository(WorkerAbsenceEntity),
      limits,
      () => now,
    );
  let pool = await open();
  return {
    get pool() {
      return pool;
    },
    pass: (ms) => {
      now += ms;
      return Promise.resolve();
    },
    restart: async () => (pool = await open()),
    clear: async () => {
      await dataSource.query('delete from worker_drains');
      await dataSource.query('delete from worker_absences');
      pool = await open();
    },
  };
}

/**
 * The shared pool of one process, on the connections of the data source.
 * @param onWrite called for each statement that writes heartbeats
 */
export function sharedPoolOn(
  dataSource: DataSource,
  timeoutMs: number,
  onWrite?: () => void,
  limits = POOL_LIMITS,
): SharedWorkerPool {
  const open = (): Promise<DataSource> => {
    onWrite?.();
    return Promise.resolve(dataSource);
  };
  return new SharedWorkerPool(
    timeoutMs,
    dataSource,
    new WorkerDrainsRepository(dataSource.getRepository(WorkerDrainEntity)),
    new HeartbeatWriter(timeoutMs, { open, close: () => Promise.resolve() }, limits),
  );
}

/** The shared pool; time passes by moving every stored time back. */
export async function sharedBench(
  dataSource: DataSource,
  timeoutMs: number,
  limits = POOL_LIMITS,
): Promise<PoolBench> {
  const open = (): SharedWorkerPool => sharedPoolOn(dataSource, timeoutMs, undefined, limits);
  let pool = open();
  const age = `insert into worker_pool_epoch (started_at) values (now() - interval '1 year')`;
  await dataSource.query(age);
  return {
    get pool() {
      return pool;
    },
    pass: (ms) => letPass(dataSource, ms),
    restart: async () => {
      await dataSource.query('truncate worker_pool, worker_descriptions, worker_pool_epoch');
      await dataSource.query(age);
      return (pool = open());
    },
    clear: async () => {
      await dataSource.query(
        `truncate worker_pool, worker_descriptions, worker_pool_epoch, worker_drains, worker_absences`,
      );
      await dataSource.query(age);
      pool = open();
    },
  };
}

/** Moves every time that the shared pool has stored back by so many milliseconds. */
export async function letPass(dataSource: DataSource, ms: number): Promise<void> {
  const back = `- $1::double precision * interval '1 millisecond'`;
  await dataSource.query(
    `update worker_pool
        set created_at = created_at ${back},
            last_heartbeat_at = last_heartbeat_at ${back},
            last_report_at = last_report_at ${back},
            previous_report_at = previous_report_at ${back}`,
    [ms],
  );
  await dataSource.query(
    `update worker_descriptions
        set departed = (select jsonb_object_agg(key, value::bigint - $1::bigint)
                          from jsonb_each_text(departed))
      where departed is not null`,
    [ms],
  );
  await dataSource.query(
    `with moved as (update worker_pool_epoch set started_at = started_at ${back}),
     absences as (update worker_absences set until = until ${back})
     update worker_drains set seen_at = seen_at ${back}`,
    [ms],
  );
}
