import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { HeldRunRepository } from '../../runs/storage/held-run.repository.js';
import { timerOf } from '../../runs/machine/timers.js';
import { QueueReader, type RunStatus } from '../../runs/queue/queue.reader.js';
import { hasResources, isEligible } from '../../runs/journal/eligibility.js';
import type { HeldRun, Obstacle, QueuedRun, SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { WorkerPool, type PooledWorker } from '../pool/worker-pool.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import { type FailedAttempt, summarise } from './explain-summary.js';
import type {
  ExplainedDeadlineDto,
  ExplainedEndDto,
  ExplainedHolderDto,
  ExplainedQueueDto,
  ExplainedWorkerCountsDto,
  ExplainedWorkerDto,
  RunExplanationDto,
} from './explain.dto.js';

const MAX_WORKERS = 100;

/** Workers whose runs one statement reads. */
const WORKERS_PER_PAGE = 1000;

/** The run avoids the worker, because another one could execute it. */
const AVOIDED: Obstacle = { resource: 'avoided', needed: 1, free: 0, total: 1 };

const NONE: ReadonlyMap<string, readonly HeldRun[]> = new Map();

@Injectable()
export class ExplainService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly queue: QueueReader,
    private readonly heldRuns: HeldRunRepository,
    private readonly pool: WorkerPool,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /** @throws RunNotFound */
  async explain(runId: string): Promise<RunExplanationDto> {
    const workers = await this.pool.list();
    // One snapshot of run, queue and assigned runs.
    return this.dataSource.transaction('REPEATABLE READ', async (manager) => {
      const status = await this.queue.getStatus(manager, runId);
      const { run } = status;
      const active = workers.filter(({ isActive }) => isActive);
      const judged = run.state === 'PENDING' ? await this.#judge(manager, status, active) : null;
      const explanation = {
        run_id: run.id,
        state: run.state,
        attempt: run.attempt,
        strategy: this.strategy.name,
        deadline: deadlineOf(status),
        queue: queueOf(status),
        holder: holderOf(status, workers),
        ended: endOf(status),
        workers: (judged ?? []).toSorted(byAbility).slice(0, MAX_WORKERS),
        counts: judged && countsOf(judged, workers.length),
      };
      return { ...explanation, summary: summarise(explanation, failedOf(status)) };
    });
  }

  async #judge(
    manager: EntityManager,
    { run, place, now }: RunStatus,
    workers: readonly PooledWorker[],
  ): Promise<ExplainedWorkerDto[]> {
    const claiming = workers.filter(({ isDraining }) => !isDraining);
    const situation = {
      strategy: this.strategy,
      run: { ...run, passedOverAt: place?.passedOverAt ?? null, reservedFor: place?.reservedFor ?? null },
      isClaimable: place !== null,
      now,
      claiming,
      reachable: new Set(claiming.map(({ id }) => id)),
    };
    const judged: ExplainedWorkerDto[] = [];
    for (let from = 0; from < workers.length; from += WORKERS_PER_PAGE) {
      const some = workers.slice(from, from + WORKERS_PER_PAGE);
      const ids = some.map(({ id }) => id);
      // A strategy that takes the head of the queue ignores assigned runs.
      const held = this.strategy.isFifo ? NONE : await this.heldRuns.findHeld(manager, ids);
      const reserved = new Map<string, QueuedRun[]>();
      for (const one of await this.queue.listReserved(manager, ids)) {
        const workerId = one.reservedFor ?? '';
        reserved.set(workerId, [...(reserved.get(workerId) ?? []), one]);
      }
      judged.push(...some.map((worker) => judge({ ...situation, held, reserved }, worker)));
    }
    return judged;
  }
}

/** A pending run and what its scheduling depends on. */
interface Situation {
  readonly strategy: SchedulingStrategy;
  readonly run: QueuedRun;
  /** False during a back-off. */
  readonly isClaimable: boolean;
  readonly now: Date;
  readonly held: ReadonlyMap<string, readonly HeldRun[]>;
  /** Runs that workers are reserved for, by worker, in queue order. */
  readonly reserved: ReadonlyMap<string, readonly QueuedRun[]>;
  /** The workers that may claim, and their ids. */
  readonly claiming: readonly PooledWorker[];
  readonly reachable: ReadonlySet<string>;
}

/** What a claim of the worker would do with the run: the strategy chooses among it and the runs it is reserved for. */
function judge(situation: Situation, worker: PooledWorker): ExplainedWorkerDto {
  const { strategy, run, isClaimable, now, held, reserved, claiming, reachable } = situation;
  const idle = { ...worker, held: [], keptFor: null };
  const claimant = { ...worker, held: held.get(worker.id) ?? [] };
  const others = (reserved.get(worker.id) ?? []).filter(({ id }) => id !== run.id);
  const candidates = [run, ...others].toSorted(byQueueOrder);
  const { assignments } = strategy.choose([claimant], candidates, { now, reachable });
  const isAllowed = isEligible(strategy, worker, run, claiming);
  const wouldGet = isAllowed && assignments.some(({ runId }) => runId === run.id);
  const kept = candidates.find(
    (one) => one.reservedFor === worker.id && strategy.obstacles(idle, one).length === 0,
  );
  const fits = run.avoidedWorker === null || hasResources(worker, run);
  const obstacles = [
    ...(fits && !isAllowed ? [AVOIDED] : []),
    ...(wouldGet ? [] : strategy.obstacles({ ...claimant, keptFor: kept?.id ?? null }, run)),
  ];
  return {
    id: worker.id,
    can_take_now: wouldGet && isClaimable && !worker.isDraining,
    could_ever: fits && strategy.obstacles(idle, run).length === 0,
    draining: worker.isDraining,
    obstacles: obstacles.map(({ resource, needed, free, total }) => ({ resource, needed, free, total })),
  };
}

/** The most able workers first, then by id. */
function byAbility(a: ExplainedWorkerDto, b: ExplainedWorkerDto): number {
  return rank(a) - rank(b) || (a.id < b.id ? -1 : 1);
}

function rank({ can_take_now: canTakeNow, could_ever: couldEver, draining }: ExplainedWorkerDto): number {
  if (!couldEver) return draining ? 4 : 3;
  if (canTakeNow) return 0;
  return draining ? 2 : 1;
}

function byQueueOrder(a: QueuedRun, b: QueuedRun): number {
  const age = a.createdAt.getTime() - b.createdAt.getTime();
  return b.priority - a.priority || age || (a.id < b.id ? -1 : 1);
}

function deadlineOf({ run, now }: RunStatus): ExplainedDeadlineDto | null {
  // No timeout runs during a back-off.
  const at = run.notBefore === null ? (timerOf(run)?.dueAt ?? null) : null;
  return (
    at && {
      budget: run.state === 'RUNNING' ? 'attempt_s' : 'start_within_s',
      at: at.toISOString(),
      remaining_ms: millisBetween(now, at),
    }
  );
}

function queueOf({ run, place, now }: RunStatus): ExplainedQueueDto | null {
  if (run.state !== 'PENDING') return null;
  return {
    position: place?.position ?? null,
    position_is_exact: place?.isExact ?? true,
    priority: run.priority,
    queued_at: run.queuedAt.toISOString(),
    waiting_ms: millisBetween(run.queuedAt, now),
    not_before: run.notBefore?.toISOString() ?? null,
    passed_over_at: place?.passedOverAt?.toISOString() ?? null,
    reserved_for: place?.reservedFor ?? null,
    avoided_worker: run.avoidedWorker,
  };
}

function holderOf({ run, now }: RunStatus, workers: readonly PooledWorker[]): ExplainedHolderDto | null {
  if (run.state !== 'ASSIGNED' && run.state !== 'RUNNING') return null;
  const worker = workers.find(({ id }) => id === run.workerId);
  return {
    worker_id: run.workerId,
    is_active: worker?.isActive ?? false,
    draining: worker?.isDraining ?? false,
    last_heartbeat_at: worker?.lastHeartbeatAt.toISOString() ?? null,
    silent_ms: worker ? millisBetween(worker.lastHeartbeatAt, now) : null,
    assigned_at: run.assignedAt?.toISOString() ?? null,
    started_at: run.startedAt?.toISOString() ?? null,
    reported_running: worker?.runningOps.some(({ id }) => id === run.id) ?? false,
  };
}

function endOf({ run, lastEvent }: RunStatus): ExplainedEndDto | null {
  if (run.finishedAt === null) return null;
  // A PATCH is not on the timeline: the last entry may have led to another state.
  const event = lastEvent?.state === run.state ? lastEvent : null;
  return {
    at: run.finishedAt.toISOString(),
    event: event?.type ?? null,
    msg: event?.msg ?? null,
    worker_id: run.workerId,
    cause: run.state === 'FAILED' ? run.cause : null,
    exit_code: run.state === 'FAILED' ? run.exitCode : null,
    error_message: run.state === 'FAILED' ? run.errorMessage : null,
  };
}

/** How the attempt before failed, of a run in back-off. */
function failedOf({ failedAttempt: failed }: RunStatus): FailedAttempt | null {
  return (
    failed && {
      worker_id: failed.workerId,
      cause: failed.cause,
      exit_code: failed.exitCode,
      error_message: failed.errorMessage,
    }
  );
}

function countsOf(judged: readonly ExplainedWorkerDto[], all: number): ExplainedWorkerCountsDto {
  const open = judged.filter(({ draining }) => !draining);
  return {
    active: judged.length,
    draining: judged.length - open.length,
    stale: all - judged.length,
    able_now: open.filter(({ can_take_now: canTakeNow }) => canTakeNow).length,
    able_ever: open.filter(({ could_ever: couldEver }) => couldEver).length,
  };
}

/** 0 when `to` is before `from`: the clocks of two machines differ. */
function millisBetween(from: Date, to: Date): number {
  return Math.max(0, to.getTime() - from.getTime());
}
