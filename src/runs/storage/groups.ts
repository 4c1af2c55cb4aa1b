import type { EntityManager } from 'typeorm';
import type { DependencyEntity, EndedGroupState, GroupEntity } from '../../database/entities/group.entity.js';
import { execute, plainArray, RowArrays, rows, type SqlExecutor } from '../../database/sql/sql.js';
import type { AwaitedTime, Need } from '../machine/run.js';
import { STATE_COLUMN } from '../counts/run-counts.repository.js';
import type { RunState } from '../machine/run-state.js';

/** A group that new runs wait for. */
export type FoundGroup = Pick<GroupEntity, 'id' | 'state'>;

/** What a new run or array waits for. */
export type NewDependency = Omit<DependencyEntity, 'id' | 'since'>;

/** An end that others wait for. */
export interface DependencyEnd {
  readonly parentId: string;
  readonly state: string;
  readonly reopens: boolean;
}

/** A run or group that has not ended, or that a schedule is still to make, for which another one waits. */
export interface AwaitedEnd {
  /** null: it is not made yet. */
  readonly parentId: string | null;
  readonly isGroup: boolean;
  /** null: it was removed. */
  readonly state: string | null;
  readonly need: Need;
  /** The schedule that makes it, and for which of its times; null: it was named by its id. */
  readonly scheduleId: string | null;
  readonly nominalAt: Date | null;
  /** How many the other one depends on, those that have ended included. */
  readonly total: number;
}

/** Awaited ends that are listed. */
const SHOWN_ENDS = 50;

/** Pending members of an array beyond which no more are made. */
export const MAX_UNSTARTED = 1_000;

/** Pending members that an array has at least before it gets no more, whatever its `max_parallel`. */
const MIN_UNSTARTED = 100;

/** Pending members beyond which no more are made of an array of which so many may be executed at once: twice as many, so that none of these waits to be made. */
export function maxUnstarted(maxParallel: number | null): number {
  return maxParallel === null
    ? MAX_UNSTARTED
    : Math.min(MAX_UNSTARTED, Math.max(MIN_UNSTARTED, 2 * maxParallel));
}

/** Of an array with this alias: pending members below which more are made, four fifths of the most. */
export function fewUnstarted(array: string): string {
  return `(least(${MAX_UNSTARTED}, greatest(${MIN_UNSTARTED}, 2 * coalesce(${array}.max_parallel, ${MAX_UNSTARTED}))) * 4 / 5)`;
}

interface GroupDelta {
  readonly id: string;
  created: number;
  pending: number;
  assigned: number;
  running: number;
  completed: number;
  failed: number;
  cancelled: number;
  dependents: number;
  /** Those of the dependents that wait for its end. */
  waiting: number;
}

type Counted = Pick<GroupEntity, 'size' | 'created' | Lowercase<RunState>>;

/** Members by state, those that are still to be made included. */
export function countsOf({
  size,
  created,
  ...group
}: Counted): Record<'uncreated' | Lowercase<RunState>, number> {
  const { pending, assigned, running, completed, failed, cancelled } = group;
  return { uncreated: size - created, pending, assigned, running, completed, failed, cancelled };
}

/** By how much the numbers of groups change. */
export class GroupDeltas {
  readonly #deltas = new Map<string, GroupDelta>();

  get isEmpty(): boolean {
    return this.#deltas.size === 0;
  }

  get list(): readonly GroupDelta[] {
    return [...this.#deltas.values()];
  }

  create(id: string): void {
    const delta = this.#of(id);
    delta.created += 1;
    delta.pending += 1;
  }

  /** A member changes its state. */
  move(id: string, from: RunState, to: RunState): void {
    if (from === to) return;
    const delta = this.#of(id);
    delta[STATE_COLUMN[from]] -= 1;
    delta[STATE_COLUMN[to]] += 1;
  }

  /** Runs are made that depend on the group. */
  depend(id: string, { all, open }: { readonly all: number; readonly open: number }): void {
    const delta = this.#of(id);
    delta.dependents += all;
    delta.waiting += open;
  }

  #of(id: string): GroupDelta {
    const delta = this.#deltas.get(id) ?? {
      id,
      created: 0,
      pending: 0,
      assigned: 0,
      running: 0,
      completed: 0,
      failed: 0,
      cancelled: 0,
      dependents: 0,
      waiting: 0,
    };
    this.#deltas.set(id, delta);
    return delta;
  }
}

/**
 * A number between the ids of the ends of a run or group that were recorded before and those that follow. It is taken while its row is
 * locked, or while nobody else knows it, as the ids are.
 */
export const SINCE_NOW = `nextval('dependency_ends_id_seq')`;

const INSERT = `insert into dependencies (
         child_run, child_group, parent_id, is_group, need, outcome, schedule_id, nominal_at, since
       )
       select v.*, ${SINCE_NOW}
         from unnest(
                $1::uuid[], $2::uuid[], $3::uuid[], $4::boolean[], $5::text[], $6::text[], $7::text[], $8::timestamptz[]
              ) as v (child_run, child_group, parent_id, is_group, need, outcome, schedule_id, nominal_at)`;
const DEPENDENCIES = RowArrays.of<keyof NewDependency>(INSERT);

const INSERT_ENDS = `insert into dependency_ends (parent_id, is_group, state, reopens)
       select v.parent_id, false, v.state, v.reopens
         from unnest($1::uuid[], $2::text[], $3::boolean[]) as v (parent_id, state, reopens)`;
const ENDS = RowArrays.of<keyof DependencyEnd>(INSERT_ENDS);

/** Why a group is stopped by its numbers `n`: no more members are made, and the open ones are cancelled. */
const STOP = `case
                  when n.stop_cause is not null then n.stop_cause
                  when n.failed >= n.max_failed then 'max_failed'
                  when n.failed > 0 and n.on_failure = 'cancel_group' then 'group'
                end`;

/** Of a group `s` whose numbers were changed. */
const STATE = `case
                  when s.pending + s.assigned + s.running > 0 or (s.created < s.size and s.stop is null) then 'open'
                  when s.failed > 0 then 'failed'
                  when s.completed = s.size then 'completed'
                  else 'cancelled'
                end`;

const COUNT = `with v as materialized (
         select *
           from unnest(
                  $1::uuid[], $2::integer[], $3::integer[], $4::integer[], $5::integer[], $6::integer[], $7::integer[], $8::integer[],
                  $9::integer[], $10::integer[]
                ) as v (id, created, pending, assigned, running, completed, failed, cancelled, dependents, waiting)
       ),
       locked as materialized (
         select g.*
           from groups g
          where g.id in (select id from v)
          order by g.id
            for update
       ),
       n as (
         select g.id, g.size, g.max_parallel, g.max_failed, g.on_failure, g.stop_cause, g.reason, g.due_at, g.state as was, g.endings, g.end_order,
                g.array_body is not null as is_array, g.waits_for, v.waiting > 0 as is_awaited,
                g.array_body is not null and v.created > 0 as is_made,
                g.created + v.created as created, g.pending + v.pending as pending, g.assigned + v.assigned as assigned,
                g.running + v.running as running, g.completed + v.completed as completed, g.failed + v.failed as failed,
                g.cancelled + v.cancelled as cancelled, g.dependents + v.dependents as dependents
           from locked g
           join v on v.id = g.id
       ),
       s as (
         select n.*, ${STOP} as stop
           from n
       ),
       d as materialized (
         select s.*, ${STATE} as state,
                case s.stop
                  when s.stop_cause then s.reason
                  when 'max_failed' then s.failed || ' members have FAILED'
                  when 'group' then 'A member has FAILED'
                end as why,
                s.stop is null and s.created < s.size and s.pending < ${fewUnstarted('s')} and s.is_array and s.waits_for is null
                or s.stop is distinct from s.stop_cause and s.pending + s.assigned + s.running > 0 as is_due
           from s
       ),
       written as (
         update groups g
            set created = d.created, pending = d.pending, assigned = d.assigned, running = d.running, completed = d.completed,
                failed = d.failed, cancelled = d.cancelled, dependents = d.dependents, stop_cause = d.stop, reason = d.why,
                state = d.state, updated_at = $11::timestamptz,
                ended_at = case when d.state = 'open' then null when d.was = d.state then g.ended_at else $11::timestamptz end,
                endings = d.endings + case when d.was in ('open', d.state) then 0 else 1 end,
                end_order = case when d.state <> 'open' and d.was <> d.state then next_commit_order() else d.end_order end,
                due_at = case when d.is_due then coalesce(d.due_at, $11::timestamptz) else d.due_at end
           from d
          where g.id = d.id
      returning g.id
       ),
       ended as (
         insert into dependency_ends (parent_id, is_group, state, reopens)
         select d.id, true, d.state, d.state = 'completed' and (d.endings > 1 or d.was <> 'open')
           from d
          where d.state <> 'open'
            and d.state <> d.was
            and d.dependents > 0
      returning parent_id
       )
       select array(select d.state from d where d.state <> 'open' and d.state <> d.was) as ended,
              coalesce((select bool_or(d.is_due) from d), false) as "isDue", exists (select from ended) as "hasEnds"
         from require_all_written(
                (select count(*) from d where d.is_awaited and d.was = 'open')
                  + (select count(*) from d where d.is_made and d.stop_cause is null and d.waits_for is null),
                (select count(*) from v where v.waiting > 0) + (select count(*) from d where d.is_made)
              )`;
const DELTAS = RowArrays.of<keyof GroupDelta>(COUNT);

/** Whether something is left to be done for groups, or for those that wait. */
export interface GroupWork {
  /** Members are to be made or cancelled. */
  readonly isDue: boolean;
  /** Those that wait for a run or group are to be told of its end, or their inputs are to be read. */
  readonly hasEnds: boolean;
  /** States of groups that have ended. */
  readonly ended: readonly EndedGroupState[];
}

export const NO_GROUP_WORK: GroupWork = { isDue: false, hasEnds: false, ended: [] };

/** The groups with these ids; unknown ones are left out. */
export async function readGroups(
  manager: EntityManager,
  ids: readonly string[],
): Promise<ReadonlyMap<string, FoundGroup>> {
  const found = await rows<FoundGroup>(
    manager,
    `select g.id, g.state
       from groups g
      where g.id = any($1::uuid[])`,
    [plainArray(ids)],
  );
  return new Map(found.map((group) => [group.id, group]));
}

/** What a group or a run waits for that has not ended, in the order in which it was asked for. */
export function listAwaited(
  executor: SqlExecutor,
  child: { readonly run: string } | { readonly group: string },
): Promise<AwaitedEnd[]> {
  const [column, id] = 'run' in child ? ['child_run', child.run] : ['child_group', child.group];
  return rows(
    executor,
    `select d.parent_id as "parentId", d.is_group as "isGroup", coalesce(r.state, g.state) as state, d.need, d.total,
            d.schedule_id as "scheduleId", d.nominal_at as "nominalAt"
       from (select *, (count(*) over ())::integer as total from dependencies where ${column} = $1::uuid) d
       left join runs r on not d.is_group and r.id = d.parent_id
       left join groups g on d.is_group and g.id = d.parent_id
      where d.outcome is null
      order by d.id
      limit ${SHOWN_ENDS}`,
    [id],
  );
}

/** What waits for the run or group of a time that its schedule is still to fire. */
export function toDependency(
  child: Pick<NewDependency, 'childRun' | 'childGroup'>,
  { scheduleId, nominalAt, need }: AwaitedTime,
): NewDependency {
  const parent = { parentId: null, isGroup: false, scheduleId, nominalAt };
  return { ...child, ...parent, need, outcome: null };
}

export async function insertDependencies(
  manager: EntityManager,
  dependencies: readonly NewDependency[],
): Promise<void> {
  await execute(manager, INSERT, DEPENDENCIES.params(dependencies));
}

export async function insertEnds(manager: EntityManager, ends: readonly DependencyEnd[]): Promise<void> {
  await execute(manager, INSERT_ENDS, ENDS.params(ends));
}

/**
 * Changes the numbers of groups, and ends, opens or stops those whose numbers say so. The rows are locked last in a transaction, for a
 * short time. @param now the time of the commit
 * @throws QueryFailedError with the code of a serialization failure if a group has ended that new runs wait for, or an array was stopped that
 * gets members
 */
export async function countInGroups(
  manager: EntityManager,
  deltas: GroupDeltas,
  now: Date,
): Promise<GroupWork> {
  const [work] = await rows<GroupWork>(manager, COUNT, [...DELTAS.params(deltas.list), now.toISOString()]);
  return work ?? NO_GROUP_WORK;
}
