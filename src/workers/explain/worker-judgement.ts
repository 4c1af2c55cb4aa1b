import type { HeldRun, Obstacle, QueuedRun, SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../pool/worker-pool.js';

/** What a worker would do with a pending run. */
export interface WorkerJudgement {
  readonly worker: PooledWorker;
  /** True when a claim of the worker would get the run if no other run were before it in the queue. */
  readonly canTakeNow: boolean;
  /** True when it could if it held nothing and were kept free for nobody. */
  readonly couldEver: boolean;
  /** What keeps it from taking the run now; empty when it can. */
  readonly obstacles: readonly Obstacle[];
}

/** A run that may be pending, and what matters to it of workers and queue. */
export interface Question {
  readonly strategy: SchedulingStrategy;
  readonly run: QueuedRun;
  /** False while the run is in back-off: nobody can take it. */
  readonly isClaimable: boolean;
  /** The database's time. */
  readonly now: Date;
  /** By worker. */
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** The runs that workers are kept free for, by worker, in the order of the queue. */
  readonly reserved: ReadonlyMap<string, readonly QueuedRun[]>;
  /** Workers that may claim. */
  readonly reachable: ReadonlySet<string>;
}

/**
 * Has the strategy itself say what a claim of the worker would do with the run, by choosing for that claim from the run
 * and from what the worker is kept free for.
 */
export function judge(question: Question, worker: PooledWorker): WorkerJudgement {
  const { strategy, run, isClaimable, now, reachable } = question;
  const idle = { ...worker, held: [], keptFor: null };
  const couldEver = strategy.obstacles(idle, run).length === 0;
  const claimant = { ...worker, held: question.held.get(worker.id) ?? [] };
  const others = (question.reserved.get(worker.id) ?? []).filter(({ id }) => id !== run.id);
  const candidates = [run, ...others].toSorted(byQueueOrder);
  const { assignments } = strategy.choose([claimant], candidates, { now, reachable });
  const wouldGet = assignments.some(({ runId }) => runId === run.id);
  const kept = candidates.find(
    (one) => one.reservedFor === worker.id && strategy.obstacles(idle, one).length === 0,
  );
  return {
    worker,
    couldEver,
    canTakeNow: wouldGet && isClaimable && !worker.isDraining,
    obstacles: wouldGet ? [] : strategy.obstacles({ ...claimant, keptFor: kept?.id ?? null }, run),
  };
}

/** The most able workers first; by id where they are equally so. */
export function byAbility(a: WorkerJudgement, b: WorkerJudgement): number {
  return rank(a) - rank(b) || (a.worker.id < b.worker.id ? -1 : 1);
}

function rank({ canTakeNow, couldEver, worker }: WorkerJudgement): number {
  if (canTakeNow) return 0;
  if (!couldEver) return worker.isDraining ? 4 : 3;
  return worker.isDraining ? 2 : 1;
}

function byQueueOrder(a: QueuedRun, b: QueuedRun): number {
  const age = a.createdAt.getTime() - b.createdAt.getTime();
  return b.priority - a.priority || age || (a.id < b.id ? -1 : 1);
}
