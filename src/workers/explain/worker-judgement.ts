import type { HeldRun, QueuedRun, SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../pool/worker-pool.js';
import type { ExplainedWorkerDto } from './explain.dto.js';

/** A pending run and what its scheduling depends on. */
export interface Situation {
  readonly strategy: SchedulingStrategy;
  readonly run: QueuedRun;
  /** False during a back-off. */
  readonly isClaimable: boolean;
  /** The database's time. */
  readonly now: Date;
  /** Assigned runs, by worker. */
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** Runs that workers are reserved for, by worker, in queue order. */
  readonly reserved: ReadonlyMap<string, readonly QueuedRun[]>;
  /** Workers that may claim. */
  readonly reachable: ReadonlySet<string>;
}

/** What a claim of the worker would do with the run: the strategy chooses among it and the runs it is reserved for. */
export function judge(situation: Situation, worker: PooledWorker): ExplainedWorkerDto {
  const { strategy, run, isClaimable, now, held, reserved, reachable } = situation;
  const idle = { ...worker, held: [], keptFor: null };
  const claimant = { ...worker, held: held.get(worker.id) ?? [] };
  const others = (reserved.get(worker.id) ?? []).filter(({ id }) => id !== run.id);
  const candidates = [run, ...others].toSorted(byQueueOrder);
  const { assignments } = strategy.choose([claimant], candidates, { now, reachable });
  const wouldGet = assignments.some(({ runId }) => runId === run.id);
  const kept = candidates.find(
    (one) => one.reservedFor === worker.id && strategy.obstacles(idle, one).length === 0,
  );
  const obstacles = wouldGet ? [] : strategy.obstacles({ ...claimant, keptFor: kept?.id ?? null }, run);
  return {
    id: worker.id,
    can_take_now: wouldGet && isClaimable && !worker.isDraining,
    could_ever: strategy.obstacles(idle, run).length === 0,
    draining: worker.isDraining,
    obstacles: obstacles.map(({ resource, needed, free, total }) => ({ resource, needed, free, total })),
  };
}

/** The most able workers first, then by id. */
export function byAbility(a: ExplainedWorkerDto, b: ExplainedWorkerDto): number {
  return rank(a) - rank(b) || (a.id < b.id ? -1 : 1);
}

function rank({ can_take_now: canTakeNow, could_ever: couldEver, draining }: ExplainedWorkerDto): number {
  if (canTakeNow) return 0;
  if (!couldEver) return draining ? 4 : 3;
  return draining ? 2 : 1;
}

function byQueueOrder(a: QueuedRun, b: QueuedRun): number {
  const age = a.createdAt.getTime() - b.createdAt.getTime();
  return b.priority - a.priority || age || (a.id < b.id ? -1 : 1);
}
