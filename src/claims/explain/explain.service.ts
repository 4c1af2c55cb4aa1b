import { Inject, Injectable } from '@nestjs/common';
import { DataSource, In, type EntityManager } from 'typeorm';
import { BatchedReads } from '../../database/sql/batched-reads.js';
import { SecretEntity } from '../../database/entities/security.entity.js';
import { secretNamesOf, showOptions } from '../../runs/options/stored-options.js';
import { HeldRunRepository } from '../../runs/storage/held-run.repository.js';
import { toAwaitedEndDto } from '../../runs/dto/dependency.dto.js';
import { toScheduledForDto } from '../../runs/dto/op-run.dto.js';
import { isHeld, type RunRecord } from '../../runs/machine/run.js';
import { avoidanceEnd } from '../../runs/machine/timers.js';
import type { StartReasons } from '../../runs/run-timeouts.job.js';
import { QueueReader, type RunStatus } from '../../runs/queue/queue.reader.js';
import { ownReason, type PendingReason } from '../../runs/pending-reason.js';
import { missingOf, requirementsOf, suitableGpus, type Requirements } from '../../runs/requirements.js';
import {
  couldExecuteIdle,
  type ChoiceContext,
  type Claimant,
  type Obstacle,
  type QueuedRun,
  type SchedulingStrategy,
} from '../../runs/scheduling-strategy.js';
import { takesRuns, WorkerPool, type PooledWorker } from '../../workers/pool/worker-pool.js';
import { WorkerKinds } from '../reasons/worker-kinds.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import {
  summarise,
  whyNotStarted,
  type Background,
  type Explanation,
  type FailedAttempt,
  type Outgrown,
} from './explain-summary.js';
import {
  toCountsDto,
  toDeadlineDto,
  toEndingDto,
  toEndDto,
  toHolderDto,
  toPausedByDtos,
  toQueueDto,
  type ExplainedConcurrencyDto,
  type ExplainedEndingDto,
  type ExplainedObstacleDto,
  type ExplainedWorkerDto,
  type RunExplanationDto,
} from './explain.dto.js';
import { byQueueOrder } from '../../runs/queue/lane.js';
import { toNotClaimingDtos, toUnableDtos } from '../../workers/dto/heartbeat.dto.js';

const MAX_WORKERS = 100;

/** Workers whose runs one statement reads. */
const WORKERS_PER_PAGE = 1000;

/** Other runs of a key that are listed. */
const MAX_HOLDERS = 100;

/** The worker does not get the run yet, because its attempt before failed there by the infrastructure. */
const AVOIDED: Obstacle = { resource: 'avoided', needed: 1, free: 0, total: 1 };

/** Names of obstacles, by what is required. */
const KINDS = [
  ['tags', 'tags'],
  ['capabilities', 'capabilities'],
  ['gpu_selector', 'gpuTags'],
] as const;

/** Resources that obstacles about GPUs name. */
const GPU_RESOURCES: ReadonlySet<string> = new Set(['gpus', 'vram_mb']);

/** What a run needs of a worker, and the use of its key. */
interface Needed {
  readonly requirements: Requirements;
  readonly concurrency: ExplainedConcurrencyDto | null;
}

/** A pending run and what its scheduling depends on. */
interface Situation extends Needed {
  readonly run: QueuedRun;
  /** False before the run's `notBefore`, and while a pause holds it. */
  readonly isClaimable: boolean;
  readonly context: ChoiceContext;
}

@Injectable()
export class ExplainService implements StartReasons {
  /** The runs of a batch share a list of the workers. */
  readonly #able = new BatchedReads((runs: readonly RunRecord[]) => this.#countAble(runs));

  constructor(
    private readonly dataSource: DataSource,
    private readonly queue: QueueReader,
    private readonly heldRuns: HeldRunRepository,
    private readonly pool: WorkerPool,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /** @throws RunNotFound */
  async explain(runId: string): Promise<RunExplanationDto> {
    const { explanation, background } = await this.#read(runId);
    return { ...explanation, summary: summarise(explanation, background) };
  }

  /** Why the run has not been started, as a part of a sentence. @throws RunNotFound */
  async whyNotStarted(runId: string): Promise<string> {
    const { explanation, background } = await this.#read(runId);
    return whyNotStarted(explanation, background);
  }

  async #read(
    runId: string,
  ): Promise<{ readonly explanation: Explanation; readonly background: Background }> {
    const workers = await this.pool.list();
    // One snapshot of run, queue and assigned runs.
    return this.dataSource.transaction('REPEATABLE READ', async (manager) => {
      const status = await this.queue.getStatus(manager, runId);
      const { run } = status;
      const active = workers.filter(({ isActive }) => isActive);
      const requirements = requirementsOf(run);
      const concurrency = await this.#readConcurrency(manager, status);
      const judged =
        run.state === 'PENDING'
          ? await this.#judge(manager, status, active, { requirements, concurrency })
          : null;
      const reason = judged && reasonOf(status, active, requirements, judged);
      const explanation = {
        run_id: run.id,
        state: run.state,
        attempt: run.attempt,
        strategy: this.strategy.name,
        reason,
        schedule: toScheduledForDto(run),
        deadline: toDeadlineDto(status),
        queue: toQueueDto(status),
        requirements: judged && {
          selector: [...requirements.tags],
          capabilities: [...requirements.capabilities],
          gpu_selector: [...requirements.gpuTags],
        },
        concurrency,
        waiting_for: status.awaited.map(toAwaitedEndDto),
        paused_by: toPausedByDtos(status),
        missing_secrets: run.state === 'PENDING' ? await missingSecrets(manager, run) : [],
        holder: toHolderDto(status, workers, await this.#endingBeside(manager, status)),
        ended: toEndDto(status),
        workers: (judged ?? []).toSorted(byAbility).slice(0, MAX_WORKERS),
        counts: judged && toCountsDto(judged, workers),
      };
      const background = {
        failed: failedOf(status),
        avoidedUntil: avoidanceEnd(run),
        losses: run,
        isHeld: isHeld(run),
        dependencies: status.awaited[0]?.total ?? 0,
        required: requirements,
        active,
        outgrown: outgrownOf(run, active),
      };
      return { explanation, background };
    });
  }

  /** How many workers that take runs could execute a new run when idle. */
  async countAble(run: RunRecord): Promise<number> {
    return (await this.#able.load(run)) ?? 0;
  }

  async #countAble(runs: readonly RunRecord[]): Promise<ReadonlyMap<RunRecord, number>> {
    const workers = (await this.pool.list()).filter(takesRuns);
    return new Map(
      runs.map((run) => {
        const requirements = requirementsOf(run);
        const able = workers.filter(
          (worker) =>
            lackingOf(worker, requirements).length === 0 &&
            lackingGpus(worker, requirements).length === 0 &&
            couldExecuteIdle(this.strategy, worker, run),
        );
        return [run, able.length];
      }),
    );
  }

  /** What ended runs hold of the worker of a run that is assigned to it and does not run yet. */
  async #endingBeside(manager: EntityManager, { run }: RunStatus): Promise<ExplainedEndingDto | null> {
    if (run.state !== 'ASSIGNED' || run.workerId === null) return null;
    const held = await this.heldRuns.findHeld(manager, [run.workerId]);
    return toEndingDto(held.get(run.workerId) ?? []);
  }

  async #readConcurrency(
    manager: EntityManager,
    { run }: RunStatus,
  ): Promise<ExplainedConcurrencyDto | null> {
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

  /** What a claim of each worker would do with the pending run. */
  async #judge(
    manager: EntityManager,
    { run, place, pausedBy, now }: RunStatus,
    workers: readonly PooledWorker[],
    { requirements, concurrency }: Needed,
  ): Promise<ExplainedWorkerDto[]> {
    const situation = {
      run: { ...run, passedOverAt: place?.passedOverAt ?? null, reservedFor: place?.reservedFor ?? null },
      isClaimable: place !== null && pausedBy.length === 0,
      requirements,
      concurrency,
      context: { now, reachable: new Set(workers.filter(takesRuns).map(({ id }) => id)) },
    };
    const judged: ExplainedWorkerDto[] = [];
    for (let from = 0; from < workers.length; from += WORKERS_PER_PAGE) {
      const some = workers.slice(from, from + WORKERS_PER_PAGE);
      const ids = some.map(({ id }) => id);
      const held = await this.heldRuns.findHeld(manager, ids);
      const reserved = await this.queue.listReserved(manager, ids);
      for (const worker of some) {
        const others = reserved.filter(({ id, reservedFor }) => reservedFor === worker.id && id !== run.id);
        const runs = held.get(worker.id) ?? [];
        // A strategy that takes the head of the queue ignores them.
        const claimant = { ...worker, held: this.strategy.isFifo ? [] : runs };
        judged.push(this.#evaluate(situation, claimant, others, toEndingDto(runs)));
      }
    }
    return judged;
  }

  /** What a claim of the worker would do: the strategy chooses among the run and the others that the worker is reserved for. */
  #evaluate(
    { run, isClaimable, requirements, concurrency, context }: Situation,
    worker: PooledWorker & Claimant,
    others: readonly QueuedRun[],
    ending: ExplainedEndingDto | null,
  ): ExplainedWorkerDto {
    const { strategy } = this;
    const lacking = lackingOf(worker, requirements);
    const gpus = lackingGpus(worker, requirements);
    const isLacking = lacking.length > 0 || gpus.length > 0;
    const isFull = concurrency !== null && concurrency.executing >= concurrency.limit;
    const candidates = [run, ...others].toSorted(byQueueOrder);
    const { assignments } = strategy.choose([worker], candidates, context);
    const isAvoided = run.avoidedWorker === worker.id;
    const isChosen = !isAvoided && gpus.length === 0 && assignments.some(({ runId }) => runId === run.id);
    const kept = candidates.find(
      (one) => one.reservedFor === worker.id && couldExecuteIdle(strategy, worker, one),
    );
    const ofStrategy = strategy.obstacles({ ...worker, keptFor: kept?.id ?? null }, run);
    const obstacles = [
      ...(isFull ? [{ resource: 'concurrency', needed: 1, free: 0, total: concurrency.limit }] : []),
      ...(isAvoided ? [AVOIDED] : []),
      ...(isChosen ? [] : ofStrategy),
      // Most strategies tell of them, too, and of how many are free.
      ...(ofStrategy.some(({ resource }) => GPU_RESOURCES.has(resource)) ? [] : gpus),
    ];
    return {
      id: worker.id,
      can_take_now: isChosen && isClaimable && takesRuns(worker) && !isFull && !isLacking,
      could_ever: !isLacking && couldExecuteIdle(strategy, worker, run),
      draining: worker.isDraining,
      not_claiming: toNotClaimingDtos(worker.notClaiming),
      unable: toUnableDtos(worker.unable),
      ending,
      obstacles: [
        ...lacking,
        ...obstacles.map(({ resource, needed, free, total }) => ({ resource, needed, free, total })),
      ],
    };
  }
}

/** Why the pending run waits. @param judged the active workers */
function reasonOf(
  { run, place, pausedBy }: RunStatus,
  active: readonly PooledWorker[],
  requirements: Requirements,
  judged: readonly ExplainedWorkerDto[],
): PendingReason {
  const own = ownReason(run, pausedBy.length > 0);
  if (own !== null) return own;
  if (place?.isAdmitted === false && !place.isPaused) return 'concurrency';
  const able = new Set(judged.filter(({ could_ever: couldEver }) => couldEver).map(({ id }) => id));
  return new WorkerKinds(active).reasonFor(requirements, ({ id }) => able.has(id));
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

/** What is required that the worker does not have. */
function lackingOf(worker: PooledWorker, requirements: Requirements): ExplainedObstacleDto[] {
  const missing = missingOf(worker, requirements);
  return KINDS.flatMap(([resource, kind]) => {
    const needed = requirements[kind].length;
    const has = needed - missing[kind].length;
    return has === needed ? [] : [{ resource, needed, free: has, total: has, missing: [...missing[kind]] }];
  });
}

/** The GPUs that the worker does not have at all, unless it already lacks a tag of them. */
function lackingGpus(worker: PooledWorker, requirements: Requirements): Obstacle[] {
  const { gpus, gpuTags } = missingOf(worker, requirements);
  if (gpus === null || gpuTags.length > 0) return [];
  const total = suitableGpus(worker, requirements);
  return [{ resource: 'gpus', needed: gpus.count, free: total, total }];
}

async function missingSecrets(manager: EntityManager, run: RunRecord): Promise<string[]> {
  const names = secretNamesOf(showOptions(run.options));
  if (names.length === 0) return [];
  const found = await manager.find(SecretEntity, { select: { name: true }, where: { name: In(names) } });
  const existing = new Set(found.map(({ name }) => name));
  return names.filter((name) => !existing.has(name));
}
