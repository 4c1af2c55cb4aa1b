import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { HeldRunRepository } from '../../runs/storage/held-run.repository.js';
import { isInExecution } from '../../runs/machine/run-state.js';
import { avoidanceEnd, timeoutOf } from '../../runs/machine/timers.js';
import { QueueReader, type RunStatus } from '../../runs/queue/queue.reader.js';
import { offeredBy, requirementsOf, type Requirements } from '../../runs/requirements.js';
import type { HeldRun, QueuedRun, SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { takesRuns, WorkerPool, type PooledWorker } from '../../workers/pool/worker-pool.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import { type FailedAttempt, type Outgrown, summarise } from './explain-summary.js';
import type {
  ExplainedConcurrencyDto,
  ExplainedDeadlineDto,
  ExplainedEndDto,
  ExplainedHolderDto,
  ExplainedQueueDto,
  ExplainedWorkerCountsDto,
  ExplainedWorkerDto,
  RunExplanationDto,
} from './explain.dto.js';
import { evaluateWorker } from './evaluate-worker.js';

const MAX_WORKERS = 100;

/** Workers whose runs one statement reads. */
const WORKERS_PER_PAGE = 1000;

/** Other runs of a key that are listed. */
const MAX_HOLDERS = 100;

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
      const requirements = requirementsOf(run);
      const concurrency = await this.#concurrencyOf(manager, status);
      const judged =
        run.state === 'PENDING'
          ? await this.#judge(manager, status, active, { requirements, concurrency })
          : null;
      const explanation = {
        run_id: run.id,
        state: run.state,
        attempt: run.attempt,
        strategy: this.strategy.name,
        deadline: deadlineOf(status),
        queue: queueOf(status),
        requirements: judged && {
          selector: [...requirements.tags],
          capabilities: [...requirements.capabilities],
          gpu_selector: [...requirements.gpuTags],
        },
        concurrency,
        holder: holderOf(status, workers),
        ended: endOf(status),
        workers: (judged ?? []).toSorted(byAbility).slice(0, MAX_WORKERS),
        counts: judged && countsOf(judged, workers.length),
      };
      return {
        ...explanation,
        summary: summarise(explanation, {
          failed: failedOf(status),
          avoidedUntil: avoidanceEnd(run),
          active: active.map(offeredBy),
          outgrown: outgrownOf(run, active),
        }),
      };
    });
  }

  async #concurrencyOf(manager: EntityManager, { run }: RunStatus): Promise<ExplainedConcurrencyDto | null> {
    const { id, concurrencyKey: key, concurrencyLimit: limit, finishedAt } = run;
    if (key === null || limit === null || finishedAt !== null) return null;
    const { count, holders } = await this.heldRuns.findKeyHolders(manager, key, MAX_HOLDERS + 1);
    return {
      key,
      limit,
      executing: count,
      holders: holders
        .filter((holder) => holder.id !== id)
        .slice(0, MAX_HOLDERS)
        .map(({ id: runId, state, workerId }) => ({ run_id: runId, state, worker_id: workerId })),
    };
  }

  async #judge(
    manager: EntityManager,
    { run, place, now }: RunStatus,
    workers: readonly PooledWorker[],
    needs: {
      readonly requirements: Requirements;
      readonly concurrency: ExplainedConcurrencyDto | null;
    },
  ): Promise<ExplainedWorkerDto[]> {
    const { requirements, concurrency } = needs;
    const claiming = workers.filter(takesRuns);
    const situation = {
      strategy: this.strategy,
      run: { ...run, passedOverAt: place?.passedOverAt ?? null, reservedFor: place?.reservedFor ?? null },
      isClaimable: place !== null,
      requirements,
      keyRoom: concurrency && {
        limit: concurrency.limit,
        free: Math.max(0, concurrency.limit - concurrency.executing),
      },
      now,
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
      judged.push(...some.map((worker) => evaluateWorker({ ...situation, held, reserved }, worker)));
    }
    return judged;
  }
}

/** The most able workers first, then by id. */
function byAbility(a: ExplainedWorkerDto, b: ExplainedWorkerDto): number {
  return rank(a) - rank(b) || (a.id < b.id ? -1 : 1);
}

function rank(worker: ExplainedWorkerDto): number {
  const isOut = worker.draining || worker.not_claiming.length > 0;
  if (!worker.could_ever) return isOut ? 4 : 3;
  if (worker.can_take_now) return 0;
  return isOut ? 2 : 1;
}

function deadlineOf({ run, now }: RunStatus): ExplainedDeadlineDto | null {
  const at = timeoutOf(run)?.dueAt ?? null;
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
    start_at: isDelayed(run) ? (run.startAt?.toISOString() ?? null) : null,
    passed_over_at: place?.passedOverAt?.toISOString() ?? null,
    reserved_for: place?.reservedFor ?? null,
    avoided_worker: run.avoidedWorker,
  };
}

/** Whether the run waits for its `start_at`, not for the end of a back-off. */
function isDelayed({ notBefore, startAt }: RunStatus['run']): boolean {
  return notBefore !== null && notBefore.getTime() === startAt?.getTime();
}

function holderOf(
  { run, submission, now }: RunStatus,
  workers: readonly PooledWorker[],
): ExplainedHolderDto | null {
  if (!isInExecution(run.state)) return null;
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
    engine: submission && {
      name: submission.engine,
      id: submission.engineId,
      reason: run.state === 'ASSIGNED' ? submission.reason : null,
      at: submission.t.toISOString(),
    },
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

/** From how much RAM to how much the run grew, if no worker has so much; else null. */
function outgrownOf(
  { ramMb, extraConstraints }: RunStatus['run'],
  workers: readonly PooledWorker[],
): Outgrown | null {
  const from = extraConstraints?.grown?.ram_mb;
  return from === undefined || workers.some((worker) => worker.ramMb >= ramMb) ? null : { from, to: ramMb };
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
  const undrained = judged.filter(({ draining }) => !draining);
  const open = undrained.filter(({ not_claiming: notClaiming }) => notClaiming.length === 0);
  return {
    active: judged.length,
    draining: judged.length - undrained.length,
    not_claiming: undrained.length - open.length,
    stale: all - judged.length,
    able_now: open.filter(({ can_take_now: canTakeNow }) => canTakeNow).length,
    able_ever: open.filter(({ could_ever: couldEver }) => couldEver).length,
  };
}

/** 0 when `to` is before `from`: the clocks of two machines differ. */
function millisBetween(from: Date, to: Date): number {
  return Math.max(0, to.getTime() - from.getTime());
}
