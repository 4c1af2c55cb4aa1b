import { byQueueOrder } from '../../runs/queue/lane.js';
import { missingOf, offeredBy, type Requirements } from '../../runs/requirements.js';
import type { HeldRun, Obstacle, QueuedRun, SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { takesRuns, type PooledWorker } from '../../workers/pool/worker-pool.js';
import { toNotClaimingDtos } from '../../workers/dto/heartbeat.dto.js';
import type { ExplainedObstacleDto, ExplainedWorkerDto } from './explain.dto.js';

/** The worker does not get the run yet, because its attempt before failed there by the infrastructure. */
const AVOIDED: Obstacle = { resource: 'avoided', needed: 1, free: 0, total: 1 };

/** Names of obstacles, by what is required. */
const KINDS = [
  ['tags', 'tags'],
  ['capabilities', 'capabilities'],
  ['gpu_selector', 'gpuTags'],
] as const;

/** A pending run and what its scheduling depends on. */
export interface Situation {
  readonly strategy: SchedulingStrategy;
  readonly run: QueuedRun;
  /** False before the run's `notBefore`. */
  readonly isClaimable: boolean;
  readonly requirements: Requirements;
  /** What the limit of the run's key leaves; null: the run has no key. */
  readonly keyRoom: { readonly limit: number; readonly free: number } | null;
  readonly now: Date;
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** Runs that workers are reserved for, by worker, in queue order. */
  readonly reserved: ReadonlyMap<string, readonly QueuedRun[]>;
  /** Ids of the workers that may claim. */
  readonly reachable: ReadonlySet<string>;
}

/** What a claim of the worker would do with the run: the strategy chooses among it and the runs it is reserved for. */
export function evaluateWorker(situation: Situation, worker: PooledWorker): ExplainedWorkerDto {
  const { strategy, run, isClaimable, requirements, keyRoom, now, held, reserved, reachable } = situation;
  const lacking = lackingOf(worker, requirements);
  const isFull = keyRoom !== null && keyRoom.free === 0;
  const idle = { ...worker, held: [], keptFor: null };
  const claimant = { ...worker, held: held.get(worker.id) ?? [] };
  const others = (reserved.get(worker.id) ?? []).filter(({ id }) => id !== run.id);
  const candidates = [run, ...others].toSorted(byQueueOrder);
  const { assignments } = strategy.choose([claimant], candidates, { now, reachable });
  const isAvoided = run.avoidedWorker === worker.id;
  const isChosen = !isAvoided && assignments.some(({ runId }) => runId === run.id);
  const kept = candidates.find(
    (one) => one.reservedFor === worker.id && strategy.obstacles(idle, one).length === 0,
  );
  const obstacles = [
    ...(keyRoom && isFull ? [{ resource: 'concurrency', needed: 1, free: 0, total: keyRoom.limit }] : []),
    ...(isAvoided ? [AVOIDED] : []),
    ...(isChosen ? [] : strategy.obstacles({ ...claimant, keptFor: kept?.id ?? null }, run)),
  ];
  return {
    id: worker.id,
    can_take_now: isChosen && isClaimable && takesRuns(worker) && !isFull && lacking.length === 0,
    could_ever: lacking.length === 0 && strategy.obstacles(idle, run).length === 0,
    draining: worker.isDraining,
    not_claiming: toNotClaimingDtos(worker.notClaiming),
    obstacles: [
      ...lacking,
      ...obstacles.map(({ resource, needed, free, total }) => ({ resource, needed, free, total })),
    ],
  };
}

/** What is required that the worker does not have. */
function lackingOf(worker: PooledWorker, requirements: Requirements): ExplainedObstacleDto[] {
  const missing = missingOf(offeredBy(worker), requirements);
  return KINDS.flatMap(([resource, kind]) => {
    const needed = requirements[kind].length;
    const has = needed - missing[kind].length;
    return has === needed ? [] : [{ resource, needed, free: has, total: has, missing: [...missing[kind]] }];
  });
}
