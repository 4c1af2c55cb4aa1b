import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { END_CAUSES, type EndCause } from '../../runs/machine/event-types.js';
import { AwaitedEndDto } from '../../runs/dto/dependency.dto.js';
import { shownCause } from '../../runs/dto/op-run.dto.js';
import { NotClaimingDto, UnableDto } from '../../workers/dto/heartbeat.dto.js';
import { ScheduledForDto } from '../../runs/dto/op-run.dto.js';
import { isHeld } from '../../runs/machine/run.js';
import { isInExecution, RUN_STATES, type RunState } from '../../runs/machine/run-state.js';
import { timeoutOf } from '../../runs/machine/timers.js';
import { ownReason, PENDING_REASON_NAMES, type PendingReason } from '../../runs/pending-reason.js';
import type { RunStatus } from '../../runs/queue/queue.reader.js';
import type { HeldRun } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../../workers/pool/worker-pool.js';

const BUDGETS = ['start_within_s', 'attempt_s'] as const;

@ApiSchema({ name: 'ExplainedDeadline', description: 'A timeout that is running.' })
export class ExplainedDeadlineDto {
  @ApiProperty({ enum: BUDGETS }) budget: (typeof BUDGETS)[number];
  /** When it is over, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) at: string;
  /** Milliseconds until then; 0 when it is over. */
  @ApiProperty({ type: 'integer' }) remaining_ms: number;
}

@ApiSchema({ name: 'ExplainedQueue', description: 'The place of a pending run in the queue.' })
export class ExplainedQueueDto {
  /** 1 for the head of the queue; null while the run is in back-off. */
  @ApiProperty({ type: 'integer', nullable: true }) position: number | null;
  /** False from position 10,000 on, where `position` stays 10000. */
  position_is_exact: boolean;
  /** Higher comes first. */
  @ApiProperty({ type: 'integer' }) priority: number;
  /** When the attempt entered the queue, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) queued_at: string;
  /** Milliseconds since then. */
  @ApiProperty({ type: 'integer' }) waiting_ms: number;
  /** Before this time it is not assigned: end of the back-off, or the run's `start_at`. ISO 8601; null: neither. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) not_before: string | null;
  /** The run's `start_at` if it waits for that time, which is `not_before` then; null: it does not. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) start_at: string | null;
  /** Since when later runs have been assigned before this one, ISO 8601; null: never. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) passed_over_at: string | null;
  /** The worker that is reserved for the run; null: none. */
  @ApiProperty({ type: 'string', nullable: true }) reserved_for: string | null;
  /**
   * Worker on which the attempt before failed by the infrastructure, or was lost not for the first time; or null. For 10 seconds from
   * `queued_at`, for 60 after losses that one worker repeated, only others get the run.
   */
  @ApiProperty({ type: 'string', nullable: true }) avoided_worker: string | null;
}

@ApiSchema({ name: 'ExplainedEngine', description: 'The job of a run in the engine of its launcher.' })
export class ExplainedEngineDto {
  /** Name of the engine. @example kubernetes */
  name: string;
  /** Of the job in the engine. @example b6f1c0de-8a5d-4f0e-9d53-2f1f7a0c4e11 */
  id: string;
  /** Why the job waits, in the engine's words; null: it gives none, or the job runs. */
  @ApiProperty({ type: 'string', nullable: true, example: '0/3 nodes are available: 3 Insufficient cpu.' })
  reason: string | null;
  /** When the launcher reported it, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) at: string;
}

@ApiSchema({ name: 'ExplainedPreparation', description: 'What a worker does before it starts an attempt.' })
export class ExplainedPreparationDto {
  /** What it waits for, as it says itself. @example Pulling the image registry.example/train:3 */
  what: string;
  /** When it began to prepare the attempt, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) since: string;
}

@ApiSchema({ name: 'ExplainedHolder', description: 'The worker that executes a run.' })
export class ExplainedHolderDto {
  /** Null for a run whose state an admin set: the first worker that reports STARTED gets it. */
  @ApiProperty({ type: 'string', nullable: true }) worker_id: string | null;
  /** True while its newest heartbeat lies within the worker timeout and it is not away. */
  is_active: boolean;
  /** Until when it keeps the run without heartbeats, as it has said, such as for its upgrade; null: it is not away. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) away_until: string | null;
  /** True while it is draining. */
  draining: boolean;
  /** Null: the worker is not registered. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) last_heartbeat_at: string | null;
  /** Milliseconds since that heartbeat. */
  @ApiProperty({ type: 'integer', nullable: true }) silent_ms: number | null;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) assigned_at: string | null;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) started_at: string | null;
  /** Whether the newest report of the worker contains the run. */
  reported_running: boolean;
  /** What ended runs still hold of the worker while this one is ASSIGNED; null: nothing. */
  @ApiProperty({ type: () => ExplainedEndingDto, nullable: true }) ending: ExplainedEndingDto | null;
  /** From the newest event SUBMITTED of the attempt; null: there is none, the worker executes the run itself. */
  @ApiProperty({ type: ExplainedEngineDto, nullable: true }) engine: ExplainedEngineDto | null;
  /** From the newest event PREPARING of the attempt; null: there is none, or the attempt has started. */
  @ApiProperty({ type: ExplainedPreparationDto, nullable: true }) preparing: ExplainedPreparationDto | null;
}

@ApiSchema({ name: 'ExplainedEnd', description: 'How a run ended.' })
export class ExplainedEndDto {
  /** ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' }) at: string;
  /** Type of the event that ended it; null: an admin set the state (see the audit log). */
  @ApiProperty({ type: 'string', nullable: true, example: 'COMPLETED' }) event: string | null;
  /** Message of that event. */
  @ApiProperty({ oneOf: [{ type: 'string' }, { type: 'integer' }], nullable: true })
  msg: string | number | null;
  /** The last worker of the run; null: the last attempt was not assigned. */
  @ApiProperty({ type: 'string', nullable: true }) worker_id: string | null;
  /** What kind of failure it was, or why the service cancelled the run; null: neither. */
  @ApiProperty({ enum: END_CAUSES, enumName: 'EndCause', nullable: true }) cause: EndCause | null;
  /** Exit code of the container; null: unknown. */
  @ApiProperty({ type: 'integer', nullable: true }) exit_code: number | null;
  /** Why the last attempt failed; null: unknown. */
  @ApiProperty({ type: 'string', nullable: true }) error_message: string | null;
}

@ApiSchema({
  name: 'ExplainedObstacle',
  description: 'Why a worker cannot take a run, such as a resource of which it has too little.',
})
export class ExplainedObstacleDto {
  /**
   * `cpu`, `ram_mb`, `vram_mb`, `gpus` (idle ones with the memory and the tags), `tags` (of the run's selector), `capabilities` (that the
   * run needs), `gpu_selector` (tags that none of its GPUs has), `concurrency` (runs of its key),
   * `reserved` (for another run), `avoided` (the attempt before failed there; see `avoided_worker`), or a name that the strategy defines.
   */
  @ApiProperty({ type: 'string', example: 'ram_mb' }) resource: string;
  /** What the run needs; of `cpu` in cores. */
  @ApiProperty({ type: 'number' }) needed: number;
  /** What is free; of GPU memory, on the GPU with the most. */
  @ApiProperty({ type: 'number' }) free: number;
  /** What the worker has in total. */
  @ApiProperty({ type: 'number' }) total: number;
  /** The tags or capabilities that the worker lacks; absent for obstacles of other kinds. */
  @ApiProperty({ type: [String], required: false, example: ['gpu'] }) missing?: string[];
}

@ApiSchema({
  name: 'ExplainedEnding',
  description: 'Programs of ended runs that a worker is still ending, and what they hold of it.',
})
export class ExplainedEndingDto {
  @ApiProperty({ type: 'integer', example: 2 }) programs: number;
  /** Thousandths of cores. */
  @ApiProperty({ type: 'integer' }) cpu_millis: number;
  /** RAM in MB. */
  @ApiProperty({ type: 'integer' }) ram_mb: number;
  /** GPUs, also those of which they have a share. */
  @ApiProperty({ type: 'integer' }) gpus: number;
}

/** What the ending ones of the runs on a worker hold; null: there are none. */
export function toEndingDto(runs: readonly HeldRun[]): ExplainedEndingDto | null {
  const ending = runs.filter(({ isEnding }) => isEnding === true);
  if (ending.length === 0) return null;
  const sum = (amount: (run: HeldRun) => number): number => ending.reduce((all, run) => all + amount(run), 0);
  return {
    programs: ending.length,
    cpu_millis: sum(({ cpuMillis }) => cpuMillis),
    ram_mb: sum(({ ramMb }) => ramMb),
    gpus: sum(({ gpuIds, gpus, vramMb }) => Math.max(gpuIds.length, gpus, Math.sign(vramMb))),
  };
}

@ApiSchema({ name: 'ExplainedWorker', description: 'Whether an active worker can execute a pending run.' })
export class ExplainedWorkerDto {
  id: string;
  /** Whether its next claim would get the run if no other run were before it in the queue. */
  can_take_now: boolean;
  /** Whether it could execute the run when idle: it has the tags, the capabilities and the resources. */
  could_ever: boolean;
  /** True while it is draining. */
  draining: boolean;
  /** Why it does not claim, as it says itself; empty: it claims. */
  @ApiProperty({ type: [NotClaimingDto] }) not_claiming: NotClaimingDto[];
  /** What its machine is unable to do at present. */
  @ApiProperty({ type: [UnableDto] }) unable: UnableDto[];
  /** Null: it is ending no program. */
  @ApiProperty({ type: ExplainedEndingDto, nullable: true }) ending: ExplainedEndingDto | null;
  /** Why it cannot take the run now. */
  @ApiProperty({ type: [ExplainedObstacleDto] }) obstacles: ExplainedObstacleDto[];
}

@ApiSchema({
  name: 'ExplainedWorkerCounts',
  description: 'The number of registered workers by their ability to execute a pending run.',
})
export class ExplainedWorkerCountsDto {
  /** With a heartbeat within the worker timeout. */
  @ApiProperty({ type: 'integer' }) active: number;
  /** Active workers that are draining. */
  @ApiProperty({ type: 'integer' }) draining: number;
  /** Active workers that are not draining and say why they do not claim. */
  @ApiProperty({ type: 'integer' }) not_claiming: number;
  /** Away, as they said themselves. */
  @ApiProperty({ type: 'integer' }) away: number;
  /** Without a heartbeat for longer than the worker timeout, and not away. */
  @ApiProperty({ type: 'integer' }) stale: number;
  /** Workers that can take the run now. */
  @ApiProperty({ type: 'integer' }) able_now: number;
  /** Active workers, not draining and claiming, that could execute the run when idle. */
  @ApiProperty({ type: 'integer' }) able_ever: number;
}

@ApiSchema({ name: 'ExplainedRequirements', description: 'What a worker must have to get the run.' })
export class ExplainedRequirementsDto {
  /** Tags: the run's `selector`. */
  @ApiProperty({ type: [String], example: ['gpu', 'eu'] }) selector: string[];
  /** What its options and constraints need, such as `env` or `gpus`. */
  @ApiProperty({ type: [String], example: ['env'] }) capabilities: string[];
  /** Tags that its GPUs must have: the run's `constraints.gpu_selector`. */
  @ApiProperty({ type: [String], example: ['a100'] }) gpu_selector: string[];
}

@ApiSchema({
  name: 'ExplainedKeyHolder',
  description: 'Another run that counts for the concurrency key.',
})
export class ExplainedKeyHolderDto {
  run_id: string;
  /** A run that is not in execution counts until its container has ended or its slot is freed. */
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState' }) state: RunState;
  /** Null for a run whose state an admin set. */
  @ApiProperty({ type: 'string', nullable: true }) worker_id: string | null;
}

@ApiSchema({ name: 'ExplainedConcurrency', description: "The use of the run's concurrency key." })
export class ExplainedConcurrencyDto {
  /** @example db-migration */
  key: string;
  /** The limit of this run. @example 1 */
  @ApiProperty({ type: 'integer' }) limit: number;
  /** Runs that count for the key, this one included. @example 1 */
  @ApiProperty({ type: 'integer' }) executing: number;
  /** Those of other runs, by id, 100 at most. */
  @ApiProperty({ type: [ExplainedKeyHolderDto] }) holders: ExplainedKeyHolderDto[];
}

@ApiSchema({ name: 'ExplainedPause', description: 'A pause that holds the run.' })
export class ExplainedPauseDto {
  /** @example move */
  name: string;
  /** @example The data centre moves. */
  reason: string;
  /** When it ends by itself; null: when an admin removes it. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) until: string | null;
}

@ApiSchema({ name: 'RunExplanation', description: 'Explains the state of a run.' })
export class RunExplanationDto {
  run_id: string;
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState' }) state: RunState;
  /** Number of the current attempt, from 1. */
  @ApiProperty({ type: 'integer' }) attempt: number;
  /** Name of the scheduling strategy. */
  @ApiProperty({ type: 'string', example: 'fit' }) strategy: string;
  /** Why the run waits; null unless it is PENDING. */
  @ApiProperty({ enum: PENDING_REASON_NAMES, enumName: 'PendingReason', nullable: true })
  reason: PendingReason | null;
  /** The explanation in one or two sentences. */
  summary: string;
  /** Null when no timeout is running. */
  @ApiProperty({ type: ExplainedDeadlineDto, nullable: true }) deadline: ExplainedDeadlineDto | null;
  /** What a schedule made the run for; null: it was not made by one. */
  @ApiProperty({ type: ScheduledForDto, nullable: true }) schedule: ScheduledForDto | null;
  /** Null unless the run is PENDING. */
  @ApiProperty({ type: ExplainedQueueDto, nullable: true }) queue: ExplainedQueueDto | null;
  /** What a worker needs to get the run, empty lists: nothing; null unless the run is PENDING. */
  @ApiProperty({ type: ExplainedRequirementsDto, nullable: true })
  requirements: ExplainedRequirementsDto | null;
  /** Null without a concurrency key, and when the run has ended. */
  @ApiProperty({ type: ExplainedConcurrencyDto, nullable: true })
  concurrency: ExplainedConcurrencyDto | null;
  /** Runs and groups on which it depends and that have not ended, 50 at most; empty unless `reason` is `dependency`, and while its inputs are read from outputs. */
  @ApiProperty({ type: [AwaitedEndDto] }) waiting_for: AwaitedEndDto[];
  /** Pauses that hold the run, by name; empty unless it is PENDING. */
  @ApiProperty({ type: [ExplainedPauseDto] }) paused_by: ExplainedPauseDto[];
  /** Names of secrets that the run uses and that do not exist: an attempt fails until they do. Empty unless the run is PENDING. */
  @ApiProperty({ type: [String], example: ['db-password'] }) missing_secrets: string[];
  /** Null unless the run is ASSIGNED or RUNNING. */
  @ApiProperty({ type: ExplainedHolderDto, nullable: true }) holder: ExplainedHolderDto | null;
  /** Null unless the run has ended. */
  @ApiProperty({ type: ExplainedEndDto, nullable: true }) ended: ExplainedEndDto | null;
  /** Active workers, the most able first, 100 at most; empty unless the run is PENDING. */
  @ApiProperty({ type: [ExplainedWorkerDto] }) workers: ExplainedWorkerDto[];
  /** Null unless the run is PENDING. */
  @ApiProperty({ type: ExplainedWorkerCountsDto, nullable: true }) counts: ExplainedWorkerCountsDto | null;
}

export function toPausedByDtos({ pausedBy }: RunStatus): ExplainedPauseDto[] {
  return pausedBy.map(({ name, reason, untilAt }) => ({
    name,
    reason,
    until: untilAt?.toISOString() ?? null,
  }));
}

export function toDeadlineDto({ run, now }: RunStatus): ExplainedDeadlineDto | null {
  const at = timeoutOf(run)?.dueAt ?? null;
  return (
    at && {
      budget: run.state === 'RUNNING' ? 'attempt_s' : 'start_within_s',
      at: at.toISOString(),
      remaining_ms: millisBetween(now, at),
    }
  );
}

export function toQueueDto({ run, place, now }: RunStatus): ExplainedQueueDto | null {
  if (run.state !== 'PENDING') return null;
  return {
    position: place?.position ?? null,
    position_is_exact: place?.isExact ?? true,
    priority: run.priority,
    queued_at: run.queuedAt.toISOString(),
    waiting_ms: millisBetween(run.queuedAt, now),
    not_before: isHeld(run) ? null : (run.notBefore?.toISOString() ?? null),
    start_at: ownReason(run, false) === 'start_at' ? (run.startAt?.toISOString() ?? null) : null,
    passed_over_at: place?.passedOverAt?.toISOString() ?? null,
    reserved_for: place?.reservedFor ?? null,
    avoided_worker: run.avoidedWorker,
  };
}

export function toHolderDto(
  { run, submission, preparation, now }: RunStatus,
  workers: readonly PooledWorker[],
  ending: ExplainedEndingDto | null,
): ExplainedHolderDto | null {
  if (!isInExecution(run.state)) return null;
  const worker = workers.find(({ id }) => id === run.workerId);
  return {
    worker_id: run.workerId,
    is_active: worker?.isActive ?? false,
    away_until: worker?.awayUntil?.toISOString() ?? null,
    draining: worker?.isDraining ?? false,
    last_heartbeat_at: worker?.lastHeartbeatAt.toISOString() ?? null,
    silent_ms: worker ? millisBetween(worker.lastHeartbeatAt, now) : null,
    assigned_at: run.assignedAt?.toISOString() ?? null,
    started_at: run.startedAt?.toISOString() ?? null,
    ending,
    reported_running: worker?.runningOps.some(({ id }) => id === run.id) ?? false,
    engine: submission && {
      name: submission.engine,
      id: submission.engineId,
      reason: run.state === 'ASSIGNED' ? submission.reason : null,
      at: submission.t.toISOString(),
    },
    preparing: preparation && {
      what: preparation.what,
      since: (run.preparingAt ?? preparation.t).toISOString(),
    },
  };
}

export function toEndDto({ run, lastEvent }: RunStatus): ExplainedEndDto | null {
  if (run.finishedAt === null) return null;
  // A PATCH is not on the timeline: the last entry may have led to another state.
  const event = lastEvent?.state === run.state ? lastEvent : null;
  return {
    at: run.finishedAt.toISOString(),
    event: event?.type ?? null,
    msg: event?.msg ?? null,
    worker_id: run.workerId,
    cause: shownCause(run),
    exit_code: run.state === 'FAILED' ? run.exitCode : null,
    error_message: run.state === 'FAILED' ? run.errorMessage : null,
  };
}

/** @param judged the active ones of the workers */
export function toCountsDto(
  judged: readonly ExplainedWorkerDto[],
  workers: readonly PooledWorker[],
): ExplainedWorkerCountsDto {
  const undrained = judged.filter(({ draining }) => !draining);
  const open = undrained.filter(({ not_claiming: notClaiming }) => notClaiming.length === 0);
  const away = workers.filter(({ awayUntil }) => awayUntil !== null).length;
  return {
    active: judged.length,
    draining: judged.length - undrained.length,
    not_claiming: undrained.length - open.length,
    away,
    stale: workers.length - judged.length - away,
    able_now: open.filter(({ can_take_now: canTakeNow }) => canTakeNow).length,
    able_ever: open.filter(({ could_ever: couldEver }) => couldEver).length,
  };
}

/** 0 when `to` is before `from`: the clocks of two machines differ. */
function millisBetween(from: Date, to: Date): number {
  return Math.max(0, to.getTime() - from.getTime());
}
