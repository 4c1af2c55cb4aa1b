import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import type { JsonObject } from '@longshore/common/json/json-value';
import {
  CATCH_UPS,
  FIRE_KINDS,
  FIRE_OUTCOMES,
  OVERLAPS,
  type CatchUp,
  type FireKind,
  type FireOutcome,
  type Overlap,
  type ScheduleEntity,
} from '../../database/entities/schedule.entity.js';
import { GROUP_STATES } from '../../database/entities/group.entity.js';
import { AppliedDto } from '../../definitions/dto/create-definition.dto.js';
import { GROUP_STATE } from '../../groups/dto/group.dto.js';
import { CreatedByDto, toCreatedByDto } from '../../runs/dto/op-run.dto.js';
import { RUN_STATES } from '../../runs/machine/run-state.js';
import type { ShownFire } from '../schedule.repository.js';
import { nextTimes } from '../schedule-times.js';
import { formatNominal } from '../times/nominal-time.js';

/** Times that an answer shows. */
const SHOWN_TIMES = 10;

const NOTES = ['skipped_hour', 'repeated_hour'] as const;

@ApiSchema({
  name: 'ScheduleFire',
  description: 'What became of a time of a schedule, or of a range of times that were missed.',
})
export class ScheduleFireDto {
  id: string;
  /** The time by the schedule; of a range the first one, of a trigger that of the request. */
  @ApiProperty({ format: 'date-time' }) nominal_at: string;
  /** What asked for it: the schedule itself, or a request. */
  @ApiProperty({
    enum: FIRE_KINDS,
    enumName: 'FireKind',
    enumSchema: { description: 'What asked for a run of a schedule.' },
  })
  kind: FireKind;
  @ApiProperty({
    enum: FIRE_OUTCOMES,
    enumName: 'FireOutcome',
    enumSchema: { description: 'What became of a time of a schedule.' },
  })
  outcome: FireOutcome;
  /** Null without a run, and of a schedule of groups. */
  @ApiProperty({ type: 'string', format: 'uuid', nullable: true }) run_id: string | null;
  /** State of the run; null without one, and when it was removed. */
  @ApiProperty({ enum: RUN_STATES, enumName: 'RunState', nullable: true }) run_state: string | null;
  /** Null without a group, and of a schedule of runs. */
  @ApiProperty({ type: 'string', format: 'uuid', nullable: true }) group_id: string | null;
  /** State of the group; null without one, and when it was removed. */
  @ApiProperty({ ...GROUP_STATE, nullable: true }) group_state: string | null;
  /** Why there is neither; null: there is one. */
  @ApiProperty({ type: 'string', nullable: true }) reason: string | null;
  /** Number of times: more than 1 only of a range that was missed. */
  @ApiProperty({ type: 'integer', minimum: 1 }) count: number;
  /** The first time of the range, and the last one. */
  @ApiProperty({ format: 'date-time' }) from: string;
  @ApiProperty({ format: 'date-time' }) until: string;
  /** When it was done. */
  @ApiProperty({ format: 'date-time' }) fired_at: string;
}

@ApiSchema({ name: 'ScheduleCounts', description: 'Times of a schedule, by what became of them.' })
export class ScheduleCountsDto {
  @ApiProperty({ type: 'integer' }) created: number;
  @ApiProperty({ type: 'integer' }) skipped_overlap: number;
  @ApiProperty({ type: 'integer' }) skipped_missed: number;
  @ApiProperty({ type: 'integer' }) failed: number;
}

@ApiSchema({
  name: 'ShownCatchUp',
  description: 'Which of the times are made up for that passed while the service was down.',
})
export class ShownCatchUpDto {
  @ApiProperty({
    enum: CATCH_UPS,
    enumName: 'CatchUpPolicy',
    enumSchema: { description: 'Which of the times are made up for that passed while the service was down.' },
  })
  policy: CatchUp;
  @ApiProperty({ type: 'integer' }) window_s: number;
}

@ApiSchema({
  name: 'Schedule',
  description: 'When runs are made by themselves, and what became of each time.',
})
export class ScheduleDto {
  id: string;
  @ApiProperty({ type: 'string', nullable: true }) description: string | null;
  @ApiProperty({ type: 'object', additionalProperties: { type: 'string', nullable: true } })
  labels: Readonly<Record<string, string | null>>;
  /** The body of the request for its runs; null: it makes groups. */
  @ApiProperty({ type: 'object', additionalProperties: true, nullable: true }) run: JsonObject | null;
  /** The body of the request for its groups; null: it makes runs. */
  @ApiProperty({ type: 'object', additionalProperties: true, nullable: true }) group: JsonObject | null;
  @ApiProperty({ type: [String], nullable: true }) cron: string[] | null;
  @ApiProperty({ type: 'integer', nullable: true }) every_s: number | null;
  @ApiProperty({ type: 'integer' }) offset_s: number;
  timezone: string;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) starts_at: string | null;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) ends_at: string | null;
  @ApiProperty({ type: 'integer' }) jitter_s: number;
  @ApiProperty({
    enum: OVERLAPS,
    enumName: 'ScheduleOverlap',
    enumSchema: { description: 'What happens at a time while earlier runs of the schedule have not ended.' },
  })
  overlap: Overlap;
  catch_up: ShownCatchUpDto;
  @ApiProperty({ type: 'integer', nullable: true }) pause_after_failures: number | null;
  paused: boolean;
  /** Why; null: nobody said, or it is not paused. */
  @ApiProperty({ type: 'string', nullable: true }) paused_note: string | null;
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) paused_at: string | null;
  /** Name of the API key that paused it; null: the service, or it is not paused. */
  @ApiProperty({ type: 'string', nullable: true }) paused_by: string | null;
  /** The next times, 10 at most, in its zone; empty while it is paused. */
  @ApiProperty({ type: 'array', items: { type: 'string', format: 'date-time' } }) next: string[];
  /** What became of the last times, 20 at most, the newest first. */
  @ApiProperty({ type: [ScheduleFireDto] }) last: ScheduleFireDto[];
  counts: ScheduleCountsDto;
  /** State of its newest run or group; null: it has none among its last times. */
  @ApiProperty({
    enum: [...RUN_STATES, ...GROUP_STATES],
    enumName: 'RunOrGroupState',
    enumSchema: { description: 'State of a run, or in small letters of a group.' },
    nullable: true,
  })
  newest_run_state: string | null;
  /** null: it was not stored by `longshore apply`. */
  @ApiProperty({ type: AppliedDto, nullable: true }) applied: AppliedDto | null;
  @ApiProperty({ type: CreatedByDto, nullable: true }) created_by: CreatedByDto | null;
  @ApiProperty({ type: CreatedByDto, nullable: true }) updated_by: CreatedByDto | null;
  @ApiProperty({ format: 'date-time' }) createdAt: string;
  @ApiProperty({ format: 'date-time' }) updatedAt: string;
}

@ApiSchema({ name: 'ScheduleTime', description: 'A time of a schedule.' })
export class ScheduleTimeDto {
  /** In its zone. @example 2026-03-29T03:30:00+02:00 */
  at: string;
  /**
   * `skipped_hour`: it stands for a time that the clock skips on that day. `repeated_hour`: the first of two equal times of the clock, the other
   * of which is none.
   */
  @ApiProperty({
    enum: NOTES,
    enumName: 'ScheduleTimeNote',
    enumSchema: { description: 'How the clock of the zone is changed at a time.' },
    required: false,
  })
  note?: (typeof NOTES)[number];
}

@ApiSchema({ name: 'SchedulePreview', description: 'The next times.' })
export class SchedulePreviewDto {
  @ApiProperty({ type: [ScheduleTimeDto] }) times: ScheduleTimeDto[];
}

@ApiSchema({ name: 'ScheduleBackfillResult', description: 'What a backfill did.' })
export class BackfillResultDto {
  /** Times of the range. */
  @ApiProperty({ type: 'integer' }) times: number;
  /** Runs that were made. */
  @ApiProperty({ type: 'integer' }) created: number;
  /** Times that had a run before. */
  @ApiProperty({ type: 'integer' }) existing: number;
  /** Times for which no run could be made; the list of fires has the reasons. */
  @ApiProperty({ type: 'integer' }) failed: number;
}

export function toScheduleDto(schedule: ScheduleEntity, last: readonly ShownFire[]): ScheduleDto {
  const { timezone, pausedAt, nextAt } = schedule;
  const newest = last.find(({ outcome }) => outcome === 'created');
  return {
    id: schedule.id,
    description: schedule.description,
    labels: schedule.labels ?? {},
    run: schedule.run,
    group: schedule.group,
    cron: schedule.cron,
    every_s: schedule.everyS,
    offset_s: schedule.offsetS,
    timezone,
    starts_at: schedule.startsAt?.toISOString() ?? null,
    ends_at: schedule.endsAt?.toISOString() ?? null,
    jitter_s: schedule.jitterS,
    overlap: schedule.overlap,
    catch_up: { policy: schedule.catchUp, window_s: schedule.windowS },
    pause_after_failures: schedule.pauseAfterFailures,
    paused: pausedAt !== null,
    paused_note: schedule.pausedNote,
    paused_at: pausedAt?.toISOString() ?? null,
    paused_by: schedule.pausedByName,
    next: nextTimes(schedule, nextAt, SHOWN_TIMES).map((at) => formatNominal(at, timezone)),
    last: last.map(toScheduleFireDto),
    counts: {
      created: Number(schedule.created),
      skipped_overlap: Number(schedule.skippedOverlap),
      skipped_missed: Number(schedule.skippedMissed),
      failed: Number(schedule.failed),
    },
    newest_run_state: newest?.runState ?? newest?.groupState ?? null,
    applied: schedule.applied,
    created_by: toCreatedByDto(schedule.createdBy, schedule.createdByName),
    updated_by: toCreatedByDto(schedule.updatedBy, schedule.updatedByName),
    createdAt: schedule.createdAt.toISOString(),
    updatedAt: schedule.updatedAt.toISOString(),
  };
}

export function toScheduleFireDto(fire: ShownFire): ScheduleFireDto {
  return {
    id: fire.id,
    nominal_at: fire.nominalAt.toISOString(),
    kind: fire.kind,
    outcome: fire.outcome,
    run_id: fire.runId,
    run_state: fire.runState,
    group_id: fire.groupId,
    group_state: fire.groupState,
    reason: fire.reason,
    count: fire.count,
    from: fire.nominalAt.toISOString(),
    until: fire.untilAt.toISOString(),
    fired_at: fire.firedAt.toISOString(),
  };
}
