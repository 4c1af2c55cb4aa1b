import { Check, Column, Entity, ForeignKey, Index, PrimaryColumn, PrimaryGeneratedColumn } from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Applied } from './definition.entity.js';

/** What happens at a time while earlier runs of the schedule have not ended. */
export const OVERLAPS = ['skip', 'allow', 'queue_one', 'cancel_previous'] as const;
export type Overlap = (typeof OVERLAPS)[number];

/** Which of the times are made up for that passed while nobody could fire them. */
export const CATCH_UPS = ['latest', 'none', 'all'] as const;
export type CatchUp = (typeof CATCH_UPS)[number];

/** What became of a time. */
export const FIRE_OUTCOMES = ['created', 'skipped_overlap', 'skipped_missed', 'failed'] as const;
export type FireOutcome = (typeof FIRE_OUTCOMES)[number];

/** What asked for a run: the schedule itself, or a request. */
export const FIRE_KINDS = ['schedule', 'trigger', 'backfill'] as const;
export type FireKind = (typeof FIRE_KINDS)[number];

/** A row of `schedules`. */
@Entity('schedules')
@Check('schedules_catch_up_check', "catch_up in ('latest', 'none', 'all')")
@Check('schedules_due_check', '(next_at is null) = (due_at is null)')
@Check('schedules_every_s_check', 'every_s >= 10')
@Check('schedules_jitter_s_check', 'jitter_s between 0 and 3600')
@Check('schedules_offset_s_check', 'offset_s >= 0')
@Check('schedules_overlap_check', "overlap in ('skip', 'allow', 'queue_one', 'cancel_previous')")
@Check('schedules_pause_after_failures_check', 'pause_after_failures >= 1')
@Check('schedules_paused_check', 'paused_at is null or next_at is null')
@Check('schedules_target_check', '(run is null) <> (group_body is null)')
@Check('schedules_times_check', '(cron is null) <> (every_s is null)')
@Check('schedules_window_s_check', 'window_s >= 0')
@Index('schedules_due', ['dueAt'], { where: '(due_at IS NOT NULL)' })
export class ScheduleEntity {
  @PrimaryColumn('text', { primaryKeyConstraintName: 'schedules_pkey' }) id: string;
  @Column('text', { nullable: true }) description: string | null;
  /** null: none. A value that is null removes a label of the definition. */
  @Column('json', { nullable: true }) labels: Readonly<Record<string, string | null>> | null;
  /** The body of the request for its runs, as it was given; null exactly without `group`. */
  @Column('json', { nullable: true }) run: JsonObject | null;
  /** The body of the request for its groups, as it was given. */
  @Column('json', { name: 'group_body', nullable: true }) group: JsonObject | null;
  /** null exactly with `everyS`. */
  @Column('json', { nullable: true }) cron: string[] | null;
  @Column('integer', { name: 'every_s', nullable: true }) everyS: number | null;
  @Column('integer', { name: 'offset_s', default: 0 }) offsetS: number;
  @Column('text') timezone: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'starts_at', nullable: true }) startsAt: Date | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'ends_at', nullable: true }) endsAt: Date | null;
  @Column('integer', { name: 'jitter_s', default: 0 }) jitterS: number;
  @Column('text') overlap: Overlap;
  @Column('text', { name: 'catch_up' }) catchUp: CatchUp;
  /** Seconds back to which times are made up for. */
  @Column('integer', { name: 'window_s' }) windowS: number;
  @Column('integer', { name: 'pause_after_failures', nullable: true }) pauseAfterFailures: number | null;
  /** null: it was not stored by `longshore apply`. */
  @Column('json', { nullable: true }) applied: Applied | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column('uuid', { name: 'created_by', nullable: true }) createdBy: string | null;
  @Column('text', { name: 'created_by_name', nullable: true }) createdByName: string | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
  @Column('uuid', { name: 'updated_by', nullable: true }) updatedBy: string | null;
  @Column('text', { name: 'updated_by_name', nullable: true }) updatedByName: string | null;
  /** null: it is not paused. */
  @Column({ type: 'timestamptz', precision: 3, name: 'paused_at', nullable: true }) pausedAt: Date | null;
  @Column('text', { name: 'paused_note', nullable: true }) pausedNote: string | null;
  /** Name of the API key; null: the service itself. */
  @Column('text', { name: 'paused_by_name', nullable: true }) pausedByName: string | null;
  /** Runs that were created before do not count for `pauseAfterFailures`. */
  @Column({ type: 'timestamptz', precision: 3, name: 'failures_since' }) failuresSince: Date;
  /** When it was made, or got other times; earlier ones are none of it. */
  @Column({ type: 'timestamptz', precision: 3, name: 'times_since' }) timesSince: Date;
  /** The first time that has not been accounted for; null: none will be due. */
  @Column({ type: 'timestamptz', precision: 3, name: 'next_at', nullable: true }) nextAt: Date | null;
  /** When a process is to look at it: `nextAt` with the jitter, or later while a process does. */
  @Column({ type: 'timestamptz', precision: 3, name: 'due_at', nullable: true }) dueAt: Date | null;
  /** Grows with every commit that concerns its times, also over a removal. A bigint as decimal string. */
  @Column('bigint', { default: () => 'next_commit_order()' }) revision: string;
  /** Times in a row of which no run could be made. */
  @Column('integer', { name: 'failed_in_row', default: 0 }) failedInRow: number;
  /** How many of its times had each outcome. Bigints as decimal strings. */
  @Column('bigint', { default: 0 }) created: string;
  @Column('bigint', { name: 'skipped_overlap', default: 0 }) skippedOverlap: string;
  @Column('bigint', { name: 'skipped_missed', default: 0 }) skippedMissed: string;
  @Column('bigint', { default: 0 }) failed: string;
}

/** A row of `schedule_fires`: what became of a time of a schedule, or of a range of times that were missed. */
@Entity('schedule_fires')
@Check('schedule_fires_count_check', 'count >= 1')
@Check('schedule_fires_kind_check', "kind in ('schedule', 'trigger', 'backfill')")
@Check(
  'schedule_fires_outcome_check',
  "outcome in ('created', 'skipped_overlap', 'skipped_missed', 'failed')",
)
@Check('schedule_fires_range_check', 'until_at >= nominal_at')
@Check('schedule_fires_target_check', "num_nonnulls(run_id, group_id) = (outcome = 'created')::integer")
@Index('schedule_fires_by_schedule', ['scheduleId', 'id'])
@Index('schedule_fires_by_key', ['idempotencyKey'], {
  unique: true,
  where: '(idempotency_key IS NOT NULL)',
})
@Index('schedule_fires_missed', ['scheduleId', 'nominalAt'], {
  where: "(outcome = 'skipped_missed'::text)",
})
@Index('schedule_fires_once', ['scheduleId', 'nominalAt'], {
  unique: true,
  where: "(outcome <> 'skipped_missed'::text)",
})
@Index('schedule_fires_skipped', ['commitOrder', 'id'], { where: "(outcome <> 'created'::text)" })
export class ScheduleFireEntity {
  /** A bigint as decimal string. */
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'schedule_fires_pkey',
  })
  id: string;
  @Column('text', { name: 'schedule_id' })
  @ForeignKey(() => ScheduleEntity, { name: 'schedule_fires_schedule_id_fkey', onDelete: 'CASCADE' })
  scheduleId: string;
  /** The time by the schedule; of a range the first one, of a trigger that of the request. */
  @Column({ type: 'timestamptz', precision: 3, name: 'nominal_at' }) nominalAt: Date;
  @Column('text') kind: FireKind;
  @Column('text') outcome: FireOutcome;
  /** Not null exactly of a created run, which may have been removed since. */
  @Column('uuid', { name: 'run_id', nullable: true }) runId: string | null;
  /** As `runId`, of a group. */
  @Column('uuid', { name: 'group_id', nullable: true }) groupId: string | null;
  @Column('text', { nullable: true }) reason: string | null;
  /** Times of the range. */
  @Column('integer', { default: 1 }) count: number;
  /** The last time of the range. */
  @Column({ type: 'timestamptz', precision: 3, name: 'until_at' }) untilAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'fired_at' }) firedAt: Date;
  /** As `events.commit_order`. */
  @Column('bigint', { name: 'commit_order', default: () => 'next_commit_order()' }) commitOrder: string;
  /** Key of the request that triggered it, with that of the caller; null: none. */
  @Column('text', { name: 'idempotency_key', nullable: true }) idempotencyKey: string | null;
  @Column('text', { name: 'request_hash', nullable: true }) requestHash: string | null;
}
