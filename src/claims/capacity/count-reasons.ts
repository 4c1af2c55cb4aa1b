import { noneByReason, type ReasonCounts } from '../../runs/pending-reason.js';
import { requirementsOfList } from '../../runs/requirements.js';
import type { SchedulingStrategy, Shape } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../../workers/pool/worker-pool.js';
import { WorkerKinds } from '../reasons/worker-kinds.js';
import type { Demand } from './demand.reader.js';

/** The pending runs by the reason for which they wait; those of kinds that were not read count as `queue`. */
export function countReasons(
  {
    all,
    startAt,
    held,
    dependent,
    paused,
    kinds,
  }: Pick<Demand, 'all' | 'startAt' | 'held' | 'dependent' | 'paused' | 'kinds'>,
  workers: readonly PooledWorker[],
  strategy: SchedulingStrategy,
): ReasonCounts {
  const { ready, waiting, heldBack } = all;
  const counts = noneByReason();
  counts.start_at = startAt;
  counts.dependency = dependent;
  counts.paused = paused;
  counts.back_off = waiting.runs - startAt - held - dependent - paused;
  counts.concurrency = heldBack + held;
  counts.queue = ready.runs - heldBack;
  const ofWorkers = new WorkerKinds(workers);
  const rooms = new Map<string, ((shape: Shape) => number) | undefined>();
  const roomOf = (worker: PooledWorker) => {
    const known = rooms.get(worker.id) ?? strategy.roomOf?.({ ...worker, held: [] });
    rooms.set(worker.id, known);
    return known;
  };
  for (const { required, admitted, ...shape } of kinds) {
    const reason = ofWorkers.reasonFor(
      requirementsOfList(required),
      (worker) => (roomOf(worker)?.(shape) ?? 1) > 0,
    );
    counts.queue -= admitted;
    counts[reason] += admitted;
  }
  return counts;
}
