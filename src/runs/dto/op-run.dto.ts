import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import type { JsonObject } from '@longshore/common/json/json-value';
import { MAX_ATTEMPTS_OF_A_RUN, type EndedAttempt, type Run, type RunRecord } from '../machine/run.js';
import { END_CAUSES, MAX_EXIT_CODE, stateOfCause, type EndCause } from '../machine/event-types.js';
import { RUN_STATES, type RunState } from '../machine/run-state.js';
import { PENDING_REASON_LIST, PENDING_REASON_NAMES, type PendingReason } from '../pending-reason.js';
import { TimelineEventDto, toTimelineEventDto } from './event.dto.js';
import { ConstraintsDto, toConstraintsDto, toGpuIds } from './constraints.dto.js';
import {
  EventDeliveryDto,
  TimeoutsDto,
  toEventDeliveryDto,
  toTimeoutsDto,
} from './timeouts-and-delivery.dto.js';
import { RetryPolicyDto, toRetryPolicyDto } from './retry-policy.dto.js';
import { ExecutionOptionsDto, toExecutionOptionsDto } from './execution-options.dto.js';
import { IsOptional } from 'class-validator';
import { QueryInteger } from '../../common/http/validation/query-decorators.js';
import type { AttemptRow } from '../storage/ended-attempts.js';
import type { TimelineRow } from '../events/event.repository.js';

@ApiSchema({
  name: 'ExecutionSummary',
  description: 'Facts about an execution; a field is present once its value is known.',
})
export class ExecutionSummaryDto {
  /** Worker that has or had the attempt. */
  worker_id?: string;
  /** GPU it uses, the first of several. */
  @ApiProperty({ type: 'integer' })
  gpu_id?: number;
  /** GPUs it uses, if it asks for whole ones or the worker has reported a list. */
  @ApiProperty({ type: 'array', items: { type: 'integer' } })
  gpu_ids?: number[];
  @ApiProperty({ format: 'date-time' })
  assigned_at?: string;
  /** When the container started; before the worker has said that, the time of the event STARTED. */
  @ApiProperty({ format: 'date-time' })
  started_at?: string;
  /** When the container ended, else the time of the report: the last event of the attempt may be much later. */
  @ApiProperty({ format: 'date-time' })
  finished_at?: string;
  /** Milliseconds from entering the queue to the assignment. */
  @ApiProperty({ type: 'integer' })
  queued_ms?: number;
  /** Milliseconds from the start to the end. */
  @ApiProperty({ type: 'integer' })
  duration_ms?: number;
  /** RAM in MB that the run asked for at first; present once it has grown by `retry_policy.grow`. Not of an attempt. */
  @ApiProperty({ type: 'integer' })
  asked_ram_mb?: number;
  /** Why the attempt failed. */
  error_message?: string;
  /**
   * What kind of failure it was; `infrastructure` counts as a reclaim and uses up no retry. Of a CANCELLED run: why the service
   * cancelled it; `concurrency`: by `concurrency.on_limit`.
   */
  @ApiProperty({ enum: END_CAUSES, enumName: 'EndCause', required: false })
  cause?: EndCause;
  /** Exit code of the container. */
  @ApiProperty({ type: 'integer', minimum: 0, maximum: MAX_EXIT_CODE })
  exit_code?: number;
  /** Why the run was cancelled, as the request to cancel it, or the service, said. */
  cancel_reason?: string;
  /**
   * Losses of a worker and failures of the infrastructure in a row: since the last manual retry, without an attempt between them that
   * reported progress. Those that one worker repeats count once for SERVICE_MAX_RECLAIMS.
   */
  @ApiProperty({ type: 'integer' })
  reclaims?: number;
}

/** How many workers could take a run. */
export const ABLE_WORKERS = {
  type: 'integer',
  minimum: 0,
  description: 'Workers that take runs now and could execute the run when idle.',
} as const;

@ApiSchema({ name: 'CreatedBy', description: 'The API key that created something.' })
export class CreatedByDto {
  /** The id that `created_by` of GET /runs takes, and that `include_sender` shows with events. */
  @ApiProperty({ format: 'uuid' })
  key_id: string;
  /** Name of the key at that time; it stays when the key is revoked. */
  key_name: string;
}

const RUN_SOURCES = ['rerun', 'schedule', 'group'] as const;

@ApiSchema({ name: 'GroupMember', description: 'What a run is in a group.' })
export class GroupMemberDto {
  /** Group, which may have been removed. */
  @ApiProperty({ type: 'string', format: 'uuid' })
  id: string;
  /** Name of the run in the group; null: it is a member of an array. */
  @ApiProperty({ type: 'string', nullable: true })
  ref: string | null;
}

@ApiSchema({ name: 'ArrayPlace', description: 'The place of a run in an array.' })
export class ArrayPlaceDto {
  /** From 0. */
  @ApiProperty({ type: 'integer' })
  index: number;
  /** Members of the array. */
  @ApiProperty({ type: 'integer' })
  size: number;
}

@ApiSchema({ name: 'ScheduledFor', description: 'What a schedule made something for.' })
export class ScheduledForDto {
  /** Schedule, which may have been deleted. */
  id: string;
  /** Time by the schedule, in its zone; of a trigger, the time of the request. @example 2026-03-29T03:30:00+02:00 */
  time: string;
}

@ApiSchema({ name: 'OpRun', description: 'A run of a container image.' })
export class OpRunDto extends ExecutionOptionsDto {
  /** UUID version 7. @example 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b */
  id: string;
  /** Name for people; null: none. */
  @ApiProperty({ type: 'string', nullable: true })
  name: string | null;
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', enumSchema: { description: 'State of a run.' } })
  state: RunState;
  /** Why the run waits; present in lists, of runs that are PENDING. GET /runs/{id}/explain tells more. */
  @ApiProperty({
    enum: PENDING_REASON_NAMES,
    enumName: 'PendingReason',
    enumSchema: { description: PENDING_REASON_LIST },
    required: false,
  })
  reason?: PendingReason;
  /** Higher is scheduled first. */
  @ApiProperty({ type: 'integer' })
  priority: number;
  /** 0-100. */
  @ApiProperty({ type: 'integer' })
  progress: number;
  /** Number of the current attempt, from 1. */
  @ApiProperty({ type: 'integer' })
  current_attempt: number;
  /** @example longshore/word-count */
  image: string;
  @ApiProperty({ type: 'object', additionalProperties: true })
  inputs: JsonObject;
  /** The template the run was created with until the run completes with outputs of its own. */
  @ApiProperty({ type: 'object', additionalProperties: true })
  outputs: JsonObject;
  /**
   * The newest 1,000 entries of the timeline, oldest first; fewer where they come to more than the setting
   * SERVICE_MAX_ANSWER_BYTES in one answer.
   */
  events: TimelineEventDto[];
  execution_summary: ExecutionSummaryDto;
  constraints: ConstraintsDto;
  retry_policy: RetryPolicyDto;
  /** Timeouts; absent when the run has none. */
  timeouts?: TimeoutsDto;
  @ApiProperty({ type: EventDeliveryDto, nullable: true })
  event_delivery: EventDeliveryDto | null;
  /** Before this time the run is not assigned; null: at any time. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  start_at: string | null;
  /** Definition that the run was made from; null for one made directly. */
  @ApiProperty({ type: 'string', nullable: true })
  op_definition: string | null;
  @ApiProperty({ type: 'string', nullable: true })
  op_definition_version: string | null;
  /** API key that created the run; null: the service itself. */
  @ApiProperty({ type: CreatedByDto, nullable: true })
  created_by: CreatedByDto | null;
  /** What made the run beside its caller; null: a request of its own. */
  @ApiProperty({ enum: RUN_SOURCES, nullable: true })
  source: (typeof RUN_SOURCES)[number] | null;
  /** Id of the run that it repeats, which may have been removed; null: none. */
  @ApiProperty({ type: 'string', format: 'uuid', nullable: true })
  rerun_of: string | null;
  /** What a schedule made it for; null: it was not made by one. */
  @ApiProperty({ type: ScheduledForDto, nullable: true })
  schedule: ScheduledForDto | null;
  /** Group that it is a member of; null: none. */
  @ApiProperty({ type: GroupMemberDto, nullable: true })
  group: GroupMemberDto | null;
  /** Its place in the array; null: its group is none. */
  @ApiProperty({ type: ArrayPlaceDto, nullable: true })
  array: ArrayPlaceDto | null;
  /** How many runs were made that repeat it; GET /runs with `rerun_of` lists them. */
  @ApiProperty({ type: 'integer' })
  reruns: number;
  /** Trace that the run belongs to (W3C Trace Context); absent when it has none. */
  traceparent?: string;
  @ApiProperty({ type: 'string', format: 'date-time' })
  createdAt: string;
  @ApiProperty({ type: 'string', format: 'date-time' })
  updatedAt: string;
}

@ApiSchema({ name: 'OpRunPreview', description: 'A run that would be created. Its id is not stored.' })
export class RunPreviewDto extends OpRunDto {
  @ApiProperty(ABLE_WORKERS)
  able_workers: number;
}

/** @param events the newest entries of the timeline, oldest first */
export function toOpRunDto(run: RunRecord, events: TimelineEventDto[]): OpRunDto {
  const timeouts = toTimeoutsDto(run);
  return {
    id: run.id,
    name: run.name,
    state: run.state,
    priority: run.priority,
    progress: run.progress,
    current_attempt: run.attempt,
    image: run.image,
    inputs: run.inputs,
    outputs: run.outputs ?? run.outputsTemplate,
    events,
    execution_summary: toExecutionSummaryDto(run, run),
    constraints: toConstraintsDto(run, run),
    retry_policy: toRetryPolicyDto(run),
    ...(timeouts && { timeouts }),
    event_delivery: toEventDeliveryDto(run),
    ...toExecutionOptionsDto(run),
    start_at: run.startAt?.toISOString() ?? null,
    op_definition: run.definitionId,
    op_definition_version: run.definitionVersion,
    created_by: toCreatedByDto(run.createdBy, run.createdByName),
    source: sourceOf(run),
    rerun_of: run.rerunOf,
    schedule: toScheduledForDto(run),
    group: run.groupId === null ? null : { id: run.groupId, ref: run.groupRef },
    array: toArrayPlaceDto(run),
    reruns: run.reruns ?? 0,
    ...(run.traceparent !== null && { traceparent: run.traceparent }),
    createdAt: run.createdAt.toISOString(),
    updatedAt: run.updatedAt.toISOString(),
  };
}

function sourceOf({ rerunOf, scheduleId, groupId }: RunRecord): OpRunDto['source'] {
  if (scheduleId !== null) return 'schedule';
  if (groupId !== null) return 'group';
  return rerunOf === null ? null : 'rerun';
}

/** Null for a run that no schedule made. */
export function toScheduledForDto({
  scheduleId: id,
  scheduleTime: time,
}: Pick<RunRecord, 'scheduleId' | 'scheduleTime'>): ScheduledForDto | null {
  return id === null || time === null ? null : { id, time };
}

/** Null for a run that is no member of an array. */
export function toArrayPlaceDto({
  arrayIndex: index,
  arraySize: size,
}: Pick<RunRecord, 'arrayIndex' | 'arraySize'>): ArrayPlaceDto | null {
  return index === null || size === null ? null : { index, size };
}

/** Null without a key. */
export function toCreatedByDto(keyId: string | null, keyName: string | null): CreatedByDto | null {
  return keyId === null ? null : { key_id: keyId, key_name: keyName ?? '' };
}

/** @param run of which the whole is told, too; left out for an attempt */
export function toExecutionSummaryDto(
  {
    state,
    workerId,
    gpuId,
    gpuIds,
    errorMessage,
    cause,
    exitCode,
    cancelReason,
    queuedAt,
    assignedAt,
    startedAt,
    finishedAt,
  }: Execution,
  run?: Pick<Run, 'reclaims' | 'extraConstraints'>,
): ExecutionSummaryDto {
  const { reclaims = 0, extraConstraints } = run ?? {};
  const grown = extraConstraints?.grown;
  const shown = shownCause({ state, cause });
  return {
    ...(workerId !== null && { worker_id: workerId }),
    ...(gpuId !== null && { gpu_id: gpuId }),
    ...toGpuIds(gpuIds),
    ...(grown && { asked_ram_mb: grown.ram_mb }),
    ...(assignedAt && {
      assigned_at: assignedAt.toISOString(),
      queued_ms: assignedAt.getTime() - queuedAt.getTime(),
    }),
    ...(startedAt && { started_at: startedAt.toISOString() }),
    ...(finishedAt && { finished_at: finishedAt.toISOString() }),
    ...(startedAt && finishedAt && { duration_ms: finishedAt.getTime() - startedAt.getTime() }),
    ...(errorMessage !== null && { error_message: errorMessage }),
    ...(shown !== null && { cause: shown }),
    // A PATCH from FAILED to another terminal state keeps it in the row.
    ...(state === 'FAILED' && exitCode !== null && { exit_code: exitCode }),
    ...(state === 'CANCELLED' && cancelReason !== null && { cancel_reason: cancelReason }),
    ...(reclaims !== 0 && { reclaims }),
  };
}

/** The cause that belongs to the state: a PATCH from one terminal state to another keeps it in the row. */
export function shownCause({ state, cause }: Pick<Run, 'state' | 'cause'>): EndCause | null {
  return cause !== null && state === stateOfCause(cause) ? cause : null;
}

/** What a run and an attempt have of an execution. */
type Execution = Pick<Run, Exclude<keyof EndedAttempt & keyof Run, 'id' | 'outputs' | 'ramMb'>>;

export class ListAttemptsQueryDto {
  /** Largest number of attempts in the page; all of them unless given. */
  @IsOptional()
  @QueryInteger({ min: 1, max: MAX_ATTEMPTS_OF_A_RUN })
  limit?: number;

  /** Number of an attempt: the page starts after it. */
  @IsOptional()
  @QueryInteger({ min: 0, max: MAX_ATTEMPTS_OF_A_RUN })
  after?: number;
}

@ApiSchema({ name: 'OpAttempt', description: 'An attempt of a run.' })
export class OpAttemptDto {
  /** UUID version 7. */
  id: string;
  op_run_id: string;
  /** 1-based. */
  @ApiProperty({ type: 'integer' })
  attempt: number;
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState' })
  state: RunState;
  /** 0-100. */
  @ApiProperty({ type: 'integer' })
  progress: number;
  /** The newest 1,000 timeline entries of this attempt, oldest first; fewer where all come to more than the setting
   * SERVICE_MAX_ANSWER_BYTES. */
  events: TimelineEventDto[];
  @ApiProperty({ type: 'object', additionalProperties: true })
  inputs: JsonObject;
  @ApiProperty({ type: 'object', additionalProperties: true })
  outputs: JsonObject;
  execution_summary: ExecutionSummaryDto;
  constraints: ConstraintsDto;
  /** As in `execution_summary`. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  started_at: string | null;
  /** As in `execution_summary`. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  finished_at: string | null;
}

/** An attempt of a run, the current one or an earlier one. */
export type AttemptRecord = Omit<AttemptRow, 'finishedAt'> & { readonly finishedAt: Date | null };

/** @param events the newest timeline entries of this attempt, oldest first */
export function toOpAttemptDto(
  run: RunRecord,
  attempt: AttemptRecord,
  events: readonly TimelineRow[],
): OpAttemptDto {
  return {
    id: attempt.id,
    op_run_id: run.id,
    attempt: attempt.attempt,
    state: attempt.state,
    progress: attempt.progress,
    events: events.map(toTimelineEventDto),
    inputs: run.inputs,
    outputs: attempt.outputs ?? run.outputsTemplate,
    execution_summary: toExecutionSummaryDto(attempt),
    constraints: {
      ...toConstraintsDto(run, attempt),
      ...(attempt.ramMb !== null && { ram_mb: attempt.ramMb }),
    },
    started_at: attempt.startedAt?.toISOString() ?? null,
    finished_at: attempt.finishedAt?.toISOString() ?? null,
  };
}
