import {
  Check,
  Column,
  Entity,
  ForeignKey,
  Index,
  PrimaryColumn,
  PrimaryGeneratedColumn,
  Unique,
} from 'typeorm';
import type { JsonObject } from '@longshore/common/json/json-value';
import { RunEntity, type Labels } from './run.entity.js';

/** What the failure of a member does to the others. */
export const ON_FAILURES = ['cancel_dependents', 'cancel_group'] as const;
export type OnFailure = (typeof ON_FAILURES)[number];

export const ENDED_GROUP_STATES = ['completed', 'failed', 'cancelled'] as const;
export const GROUP_STATES = ['open', ...ENDED_GROUP_STATES] as const;
export type GroupState = (typeof GROUP_STATES)[number];
export type EndedGroupState = (typeof ENDED_GROUP_STATES)[number];

/** Why no more members are made, and open ones are cancelled. */
export type StopCause = 'dependency' | 'inputs' | 'max_failed' | 'group' | 'user';

/** A group whose members wait for those of the same index. */
export type SameIndex = Readonly<{ group: string; when: 'completed' | 'failed' | 'ended' }>;

/** A row of `groups`: runs that are handled as one, with the number of them in each state. */
@Entity('groups')
@Check('groups_counts_check', 'created = pending + assigned + running + completed + failed + cancelled')
@Check('groups_created_check', 'created between 0 and size')
@Check('groups_ended_check', "(state = 'open') = (ended_at is null)")
@Check('groups_max_failed_check', 'max_failed >= 1')
@Check('groups_max_parallel_check', 'max_parallel >= 1')
@Check('groups_on_failure_check', "on_failure in ('cancel_dependents', 'cancel_group')")
@Check('groups_size_check', 'size >= 1')
@Check('groups_state_check', "state in ('open', 'completed', 'failed', 'cancelled')")
@Check('groups_stop_cause_check', "stop_cause in ('dependency', 'inputs', 'max_failed', 'group', 'user')")
@Unique('groups_idempotency_key_key', ['idempotencyKey'])
@Index('groups_by_schedule', ['scheduleId', 'createdAt', 'id'], { where: '(schedule_id IS NOT NULL)' })
@Index('groups_due', ['dueAt'], { where: '(due_at IS NOT NULL)' })
@Index('groups_ended', ['endOrder', 'id'], { where: '(end_order IS NOT NULL)' })
@Index('groups_open', ['scheduleId'], {
  where: "((state = 'open'::text) AND (schedule_id IS NOT NULL))",
})
@Index('groups_listed', ['createdAt', 'id'])
@Index('groups_by_state', ['state', 'createdAt', 'id'])
@Index('groups_by_name', ['name', 'createdAt', 'id'], { where: '(name IS NOT NULL)' })
export class GroupEntity {
  @PrimaryColumn('uuid', { primaryKeyConstraintName: 'groups_pkey' }) id: string;
  @Column('text', { nullable: true }) name: string | null;
  /** null: none. */
  @Column('json', { nullable: true }) labels: Labels | null;
  @Column('text', { name: 'on_failure' }) onFailure: OnFailure;
  @Column('integer', { name: 'max_parallel', nullable: true }) maxParallel: number | null;
  @Column('integer', { name: 'max_failed', nullable: true }) maxFailed: number | null;
  /** Members, those that are still to be made included. */
  @Column('integer') size: number;
  /** What members of an array are made of: `{run, inputs?: [...], labels?, shared?}`; null: it is none. */
  @Column('json', { name: 'array_body', nullable: true }) arrayBody: JsonObject | null;
  /** Arrays for whose member of the same index each member waits; null: none. */
  @Column('json', { name: 'same_index', nullable: true }) sameIndex: readonly SameIndex[] | null;
  /** Schedule that made it, which may have been removed; null: none. */
  @Column('text', { name: 'schedule_id', nullable: true }) scheduleId: string | null;
  @Column('text', { name: 'schedule_time', nullable: true }) scheduleTime: string | null;
  /** Key of the request that made it, with that of the caller; null: none. */
  @Column('text', { name: 'idempotency_key', nullable: true }) idempotencyKey: string | null;
  @Column('text', { name: 'request_hash', nullable: true }) requestHash: string | null;
  @Column('uuid', { name: 'created_by', nullable: true }) createdBy: string | null;
  @Column('text', { name: 'created_by_name', nullable: true }) createdByName: string | null;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
  @Column({ type: 'timestamptz', precision: 3, name: 'updated_at' }) updatedAt: Date;
  /** Not null exactly when all members have ended. */
  @Column({ type: 'timestamptz', precision: 3, name: 'ended_at', nullable: true }) endedAt: Date | null;
  @Column('text', { default: 'open' }) state: GroupState;
  /** null: it is not stopped. */
  @Column('text', { name: 'stop_cause', nullable: true }) stopCause: StopCause | null;
  /** Why it was stopped, in words. */
  @Column('text', { nullable: true }) reason: string | null;
  /** Members that were made. */
  @Column('integer', { default: 0 }) created: number;
  @Column('integer', { default: 0 }) pending: number;
  @Column('integer', { default: 0 }) assigned: number;
  @Column('integer', { default: 0 }) running: number;
  @Column('integer', { default: 0 }) completed: number;
  @Column('integer', { default: 0 }) failed: number;
  @Column('integer', { default: 0 }) cancelled: number;
  /** Runs and groups that must end before members of the array are made; null: none. */
  @Column('integer', { name: 'waits_for', nullable: true }) waitsFor: number | null;
  /** How many times a run or an array was made that waits for it. */
  @Column('integer', { default: 0 }) dependents: number;
  /** How many times it has ended, or will have when it ends next. */
  @Column('integer', { default: 1 }) endings: number;
  /** When it ended, in the order of commits; null: it never has. */
  @Column('bigint', { name: 'end_order', nullable: true }) endOrder: string | null;
  /** When a process may make or cancel members; null: there is nothing to do. */
  @Column({ type: 'timestamptz', precision: 3, name: 'due_at', nullable: true }) dueAt: Date | null;
}

/** A row of `group_terms`: lists find a group by its label `term`, `label:KEY` or `label:KEY=VALUE`. */
@Entity('group_terms')
@Index('group_terms_in_lists', ['term', 'createdAt', 'groupId'])
export class GroupTermEntity {
  @PrimaryColumn('uuid', { name: 'group_id', primaryKeyConstraintName: 'group_terms_pkey' })
  @ForeignKey(() => GroupEntity, { name: 'group_terms_group_id_fkey', onDelete: 'CASCADE' })
  groupId: string;
  @PrimaryColumn('text', { primaryKeyConstraintName: 'group_terms_pkey' }) term: string;
  @Column({ type: 'timestamptz', precision: 3, name: 'created_at' }) createdAt: Date;
}

/** A row of `dependencies`: a run or an array waits for the end of a run or group. */
@Entity('dependencies')
@Check('dependencies_child_check', '(child_run is null) <> (child_group is null)')
@Check('dependencies_need_check', "need in ('completed', 'failed', 'ended')")
@Check('dependencies_outcome_check', "outcome in ('met', 'broken')")
@Check('dependencies_parent_check', 'parent_id is not null or schedule_id is not null')
@Check('dependencies_time_check', '(schedule_id is null) = (nominal_at is null)')
@Index('dependencies_of_group', ['childGroup'], { where: '(child_group IS NOT NULL)' })
@Index('dependencies_of_run', ['childRun'], { where: '(child_run IS NOT NULL)' })
@Index('dependencies_on', ['parentId', 'outcome', 'id'])
@Index('dependencies_on_times', ['scheduleId', 'nominalAt', 'id'], {
  where: '((parent_id IS NULL) AND (outcome IS NULL))',
})
export class DependencyEntity {
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'dependencies_pkey',
  })
  id: string;
  @Column('uuid', { name: 'child_run', nullable: true })
  @ForeignKey(() => RunEntity, { name: 'dependencies_child_run_fkey', onDelete: 'CASCADE' })
  childRun: string | null;
  @Column('uuid', { name: 'child_group', nullable: true })
  @ForeignKey(() => GroupEntity, { name: 'dependencies_child_group_fkey', onDelete: 'CASCADE' })
  childGroup: string | null;
  /** A run or group, which may have been removed; null: the schedule has made none for the time so far. */
  @Column('uuid', { name: 'parent_id', nullable: true }) parentId: string | null;
  @Column('boolean', { name: 'is_group' }) isGroup: boolean;
  /** What its end must be. */
  @Column('text') need: 'completed' | 'failed' | 'ended';
  /** Ends of the parent with a greater id count. */
  @Column('bigint') since: string;
  /** null: it has not ended. */
  @Column('text', { nullable: true }) outcome: 'met' | 'broken' | null;
  /** The schedule whose run or group is meant, which may have been removed; null: it was named by its id. */
  @Column('text', { name: 'schedule_id', nullable: true }) scheduleId: string | null;
  /** The time of that schedule. */
  @Column({ type: 'timestamptz', precision: 3, name: 'nominal_at', nullable: true }) nominalAt: Date | null;
}

/**
 * A row of `dependency_ends`: a run or group has ended, and some of those that wait for it have not been told. The ids of the ends of
 * one are in their order.
 */
@Entity('dependency_ends')
export class DependencyEndEntity {
  @PrimaryGeneratedColumn('identity', {
    type: 'bigint',
    generatedIdentity: 'ALWAYS',
    primaryKeyConstraintName: 'dependency_ends_pkey',
  })
  id: string;
  @Column('uuid', { name: 'parent_id' }) parentId: string;
  @Column('boolean', { name: 'is_group' }) isGroup: boolean;
  @Column('text') state: string;
  /** Whether those are opened again that an earlier end has cancelled. */
  @Column('boolean') reopens: boolean;
}
