import type { HeldRun, SchedulingStrategy, Shape } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../../workers/pool/worker-pool.js';

/**
 * Tells, by the rule of the strategy, whether and how often runs of a shape fit the workers; null: unknown.
 * @param workers those that accept runs
 * @param held their runs, by worker
 * @param reserved ids of workers that are reserved for a run: they take no other
 * @returns function of a shape and of the number of runs above which free places need not be counted
 */
export function placementOf(
  strategy: SchedulingStrategy,
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
  reserved: ReadonlySet<string>,
) {
  const countersOf = (some: readonly PooledWorker[], runs: typeof held) =>
    some.flatMap((worker) => strategy.roomOf?.({ ...worker, held: runs.get(worker.id) ?? [] }) ?? []);
  const ofIdle = countersOf(workers, new Map());
  const ofFree = countersOf(
    workers.filter(({ id }) => !reserved.has(id)),
    held,
  );
  return (
    shape: Shape,
    most: number,
  ): { readonly isPlaceable: boolean | null; readonly free: number | null } => {
    if (ofIdle.length === 0) return { isPlaceable: null, free: null };
    if (!ofIdle.some((count) => count(shape) > 0)) return { isPlaceable: false, free: 0 };
    let free = 0;
    for (const count of ofFree) {
      if (free >= most) break;
      free += count(shape);
    }
    return { isPlaceable: true, free: Math.min(free, most) };
  };
}
