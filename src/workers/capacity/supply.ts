import type { HeldRun } from '../../runs/scheduling-strategy.js';
import { freeResources } from '../free-resources.js';
import { summariseWorkers, type WorkersSummary } from '../overview/workers-summary.js';
import type { PooledWorker } from '../pool/worker-pool.js';

/** Workers that have the same. */
export interface WorkerSize {
  readonly cpuCores: number;
  readonly ramMb: number;
  /** MB of each GPU, the largest first. */
  readonly gpus: readonly number[];
  readonly workers: number;
  /** Those of them that hold no run. */
  readonly idle: number;
}

/** What the workers have; sums and sizes are of those that are active and take runs. */
export interface Supply extends WorkersSummary {
  /** Workers that hold no run. */
  readonly idle: number;
  /** Workers that are kept free for a run. */
  readonly reserved: number;
  /** GPUs, and how many of them have a run that takes memory of them. */
  readonly gpus: { readonly total: number; readonly used: number };
  /** The most frequent first. */
  readonly sizes: readonly WorkerSize[];
}

/** True for a worker that may claim. */
export function takesRuns({ isActive, isDraining }: PooledWorker): boolean {
  return isActive && !isDraining;
}

/**
 * Adds up what workers have.
 * @param held the runs in their hands, by worker
 * @param reserved ids of workers that are kept free for a run
 */
export function summariseSupply(
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
  reserved: ReadonlySet<string>,
): Supply {
  const standings = workers.map((worker) => ({
    worker,
    free: freeResources(worker, held.get(worker.id) ?? []),
  }));
  const open = standings.filter(({ worker }) => takesRuns(worker));
  const isIdle = ({ id }: PooledWorker): boolean => !held.has(id);
  const gpus = open.flatMap(({ worker, free }) =>
    worker.gpus.map(({ vramMb }, at) => vramMb > (free.gpus[at]?.vramMb ?? 0)),
  );
  return {
    ...summariseWorkers(standings),
    idle: open.filter(({ worker }) => isIdle(worker)).length,
    reserved: open.filter(({ worker }) => reserved.has(worker.id)).length,
    gpus: { total: gpus.length, used: gpus.filter(Boolean).length },
    sizes: sizesOf(
      open.map(({ worker }) => worker),
      isIdle,
    ),
  };
}

function sizesOf(
  workers: readonly PooledWorker[],
  isIdle: (worker: PooledWorker) => boolean,
): readonly WorkerSize[] {
  const sizes = new Map<string, WorkerSize>();
  for (const worker of workers) {
    const { cpuCores, ramMb } = worker;
    const gpus = worker.gpus.map(({ vramMb }) => vramMb).toSorted((a, b) => b - a);
    const key = [cpuCores, ramMb, ...gpus].join();
    const before = sizes.get(key) ?? { cpuCores, ramMb, gpus, workers: 0, idle: 0 };
    sizes.set(key, {
      ...before,
      workers: before.workers + 1,
      idle: before.idle + (isIdle(worker) ? 1 : 0),
    });
  }
  return [...sizes.values()].toSorted((a, b) => b.workers - a.workers);
}
