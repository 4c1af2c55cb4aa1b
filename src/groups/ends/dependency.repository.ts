import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { stringifyJson } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { DependencyEntity } from '../../database/entities/group.entity.js';
import { filesNamedIn, useFiles } from '../../database/file-uses.js';
import { execute, plainArray, rows, unnestRows } from '../../database/sql/sql.js';
import type { BatchDone, BatchLedger } from '../../runs/journal/command.js';
import type { Changes } from '../../runs/journal/decide-group.js';
import { SINCE_NOW } from '../../runs/storage/groups.js';
import { lockEdges, openArray, stopGroup, type SeenEdge } from '../group-changes.js';

/** A run or group that has ended, and a dependency on it; `id` is null if there is none any more. */
export type FoundEnd = {
  readonly endId: string;
  readonly parentId: string;
  readonly isGroup: boolean;
  readonly state: string;
  readonly reopens: boolean;
} & (
  | { readonly id: null }
  | (Pick<DependencyEntity, 'id' | 'childRun' | 'childGroup' | 'need' | 'since'> & {
      readonly outcome: 'broken' | null;
    })
);

/** A run of which all parents have ended, and whose inputs are to be read from outputs. */
export interface UnsuppliedRun {
  readonly id: string;
  readonly inputs: JsonObject;
  readonly definitionId: string | null;
  readonly definitionVersion: string | null;
}

/** A run whose outputs others get; a forced retry may ask for them before its end. */
export interface ParentRun {
  readonly id: string;
  readonly hasEnded: boolean;
  readonly outputs: JsonObject;
}

/** A value of the outputs of a member; null: there is none. */
export interface MemberValue {
  readonly id: string;
  readonly ref: string | null;
  readonly state: string;
  readonly text: string | null;
}

/** What a commit does to dependencies. */
export type DependencyRecord =
  | {
      readonly kind: 'ends';
      /** All ends that were read, and those of them of which nothing is left to be told. */
      readonly ends: readonly string[];
      readonly finished: readonly string[];
      /** The dependencies by which it was decided. */
      readonly seen: readonly SeenEdge[];
      readonly outcomes: readonly { readonly id: string; readonly outcome: 'met' | 'broken' }[];
      readonly arrays: readonly ToldArray[];
      /** Dependencies on times of schedules whose runs and groups are there now; undefined: none. */
      readonly made?: readonly MadeParent[];
    }
  | { readonly kind: 'inputs'; readonly runId: string; readonly inputs: JsonObject | null };

/** An array that waits. */
export interface ToldArray {
  readonly id: string;
  /** Whether dependencies are met now that were broken before. */
  readonly isMended: boolean;
  /** Why it gets no members, for people; null: it may get some. */
  readonly broken: string | null;
}

/** The run or group that a schedule has made for a time. */
export interface MadeParent {
  /** Of the dependency. */
  readonly id: string;
  readonly parentId: string;
  readonly isGroup: boolean;
}

export const EDGES_PER_PAGE = 100;
const ENDS_PER_PAGE = 100;

/** SQL of ends and of what waits for them. */
@Injectable()
export class DependencyRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** The first ends with what is to be told of them, at most {@link EDGES_PER_PAGE} rows. */
  listEnds(): Promise<FoundEnd[]> {
    return rows(
      this.dataSource,
      `select e.id as "endId", e.parent_id as "parentId", e.is_group as "isGroup", e.state, e.reopens, d.id,
              d.child_run as "childRun", d.child_group as "childGroup", d.need, d.outcome, d.since
         from (select * from dependency_ends order by id limit ${ENDS_PER_PAGE}) e
         left join lateral (
           select d.*
             from dependencies d
            where d.parent_id = e.parent_id
              and d.since < e.id
              and (d.outcome is null or (e.reopens and d.outcome = 'broken' and d.need <> 'failed'))
            order by d.id
            limit ${EDGES_PER_PAGE}
         ) d on true
        order by e.id, d.id
        limit ${EDGES_PER_PAGE}`,
    );
  }

  /** The dependencies of those of these runs that the end of another one has cancelled. */
  listCancelled(ids: readonly string[]): Promise<(SeenEdge & { readonly child: string })[]> {
    return rows(
      this.dataSource,
      `select d.id, d.child_run as child, d.outcome, d.since
         from dependencies d
         join runs r on r.id = d.child_run
        where d.child_run = any($1::uuid[])
          and r.state = 'CANCELLED'
          and r.cause = 'dependency'`,
      [plainArray(ids)],
    );
  }

  /** Runs whose inputs are to be read. */
  listUnsupplied(limit: number): Promise<UnsuppliedRun[]> {
    return rows(
      this.dataSource,
      `select r.id, r.inputs, r.definition_id as "definitionId", r.definition_version as "definitionVersion"
         from runs r
        where r.waits_for = 0
        order by r.id
        limit $1::integer`,
      [limit],
    );
  }

  listOutputs(ids: readonly string[]): Promise<ParentRun[]> {
    return rows(
      this.dataSource,
      `select r.id, r.finished_at is not null as "hasEnded", coalesce(r.outputs, r.outputs_template) as outputs
         from runs r
        where r.id = any($1::uuid[])`,
      [plainArray(ids)],
    );
  }

  /** Of the members of a group, the values at a path of their outputs as exact JSON, in the order of their indexes or names. */
  listValues(groupId: string, path: readonly string[]): Promise<MemberValue[]> {
    return rows(
      this.dataSource,
      `select r.id, r.group_ref as ref, r.state, (coalesce(r.outputs, r.outputs_template) #> $2::text[])::text as text
         from runs r
        where r.group_id = $1::uuid
        order by r.array_index, r.group_ref`,
      [groupId, path],
    );
  }
}

/** Ends, and runs that wait, as the journal moves them on. */
class DependencyLedger implements BatchLedger<DependencyRecord> {
  async lock(
    manager: EntityManager,
    records: readonly DependencyRecord[],
  ): Promise<ReadonlySet<DependencyRecord>> {
    const due = new Set<DependencyRecord>();
    const ends = records.flatMap((record) => (record.kind === 'ends' ? record.ends : []));
    const runs = records.flatMap((record) => (record.kind === 'inputs' ? [record.runId] : []));
    const seen = records.flatMap((record) => (record.kind === 'ends' ? record.seen : []));
    const [lockedEnds, edges, lockedRuns] = await Promise.all([
      ends.length === 0
        ? []
        : rows<{ id: string }>(
            manager,
            `select id from dependency_ends where id = any($1::bigint[]) order by id for update`,
            [ends],
          ),
      lockEdges(manager, seen),
      runs.length === 0
        ? []
        : rows<{ id: string }>(
            manager,
            `select id from runs where id = any($1::uuid[]) and waits_for = 0 order by id for update`,
            [plainArray(runs)],
          ),
    ]);
    const found = new Set([...lockedEnds, ...lockedRuns].map(({ id }) => id));
    const taken = new Set<string>();
    for (const record of records) {
      const ids = record.kind === 'ends' ? record.ends : [record.runId];
      if (!ids.every((id) => found.has(id) && !taken.has(id))) continue;
      if (record.kind === 'ends' && !record.seen.every(({ id }) => edges.has(id))) continue;
      for (const id of ids) taken.add(id);
      due.add(record);
    }
    return due;
  }

  seenBy(record: DependencyRecord): readonly string[] {
    return record.kind === 'ends' ? record.seen.map(({ id }) => id) : [];
  }

  async write(manager: EntityManager, done: readonly BatchDone<DependencyRecord>[]): Promise<void> {
    const records = done.map(({ record }) => record);
    const told = records.filter((record) => record.kind === 'ends');
    const supplied = records.flatMap((record) =>
      record.kind === 'inputs' && record.inputs
        ? [{ id: record.runId, inputs: stringifyJson(record.inputs) }]
        : [],
    );
    const outcomes = told.flatMap((record) => record.outcomes);
    const finished = told.flatMap((record) => record.finished);
    if (outcomes.length > 0) {
      const edges = unnestRows({ id: 'bigint', outcome: 'text' }, outcomes);
      await execute(
        manager,
        `update dependencies d set outcome = v.outcome from ${edges.sql} where d.id = v.id`,
        edges.params,
      );
    }
    if (finished.length > 0)
      await execute(manager, `delete from dependency_ends where id = any($1::bigint[])`, [finished]);
    for (const array of told.flatMap((record) => record.arrays)) await tell(manager, array);
    const made = told.flatMap((record) => record.made ?? []);
    if (made.length > 0) await follow(manager, made);
    if (supplied.length === 0) return;
    const inputs = unnestRows({ id: 'uuid', inputs: 'json' }, supplied);
    await execute(
      manager,
      `update runs r
          set inputs = v.inputs,
              has_sources = null,
              has_files = case when v.inputs::text like '%"$artifact"%' then true else r.has_files end,
              size = r.size + octet_length(v.inputs::text) - octet_length(r.inputs::text)
         from ${inputs.sql}
        where r.id = v.id`,
      inputs.params,
    );
    await useFiles(
      manager,
      supplied.flatMap(({ id, inputs: text }) =>
        filesNamedIn(text, 'run').map((fileId) => ({ kind: 'run', id, fileId })),
      ),
    );
  }
}

/** An array gets members when all have ended that it waits for, and none if one ended otherwise than it needs. */
async function tell(manager: EntityManager, { id, isMended, broken }: ToldArray): Promise<void> {
  if (broken !== null) await stopGroup(manager, id, 'dependency', broken);
  else await openArray(manager, id, isMended ? 'dependency' : null);
}

/**
 * Dependencies get their parents; the ends of those that have ended are to be told. Rows of runs are locked by `depend`, those of
 * groups here. A parent that was removed has ended in a state that is not known.
 */
async function follow(manager: EntityManager, made: readonly MadeParent[]): Promise<void> {
  const groups = made.filter(({ isGroup }) => isGroup).map(({ parentId }) => parentId);
  if (groups.length > 0)
    await execute(
      manager,
      `update groups
          set dependents = dependents + 1
        where id in (select id from groups where id = any($1::uuid[]) order by id for update)`,
      [plainArray(groups)],
    );
  const parents = unnestRows(
    { id: 'bigint', parent_id: 'uuid', is_group: 'boolean' },
    made.map(({ id, parentId, isGroup }) => ({ id, parent_id: parentId, is_group: isGroup })),
  );
  await execute(
    manager,
    `update dependencies d
        set parent_id = v.parent_id,
            is_group = v.is_group,
            since = ${SINCE_NOW}
       from ${parents.sql}
      where d.id = v.id`,
    parents.params,
  );
  await execute(
    manager,
    `insert into dependency_ends (parent_id, is_group, state, reopens)
     select distinct v.parent_id, v.is_group, coalesce(r.state, g.state, 'REMOVED'), false
       from ${parents.sql}
       left join runs r on not v.is_group and r.id = v.parent_id
       left join groups g on v.is_group and g.id = v.parent_id
      where case when v.is_group then g.state is distinct from 'open' else r.id is null or r.finished_at is not null end`,
    parents.params,
  );
}

export const DEPENDENCY_LEDGER = new DependencyLedger();

/** The outcomes that batches of a commit have written. */
export function endsToldBy(
  batches: Changes['batches'],
): Extract<DependencyRecord, { kind: 'ends' }>['outcomes'] {
  return batches.flatMap(({ ledger, record }) =>
    ledger === DEPENDENCY_LEDGER && isOfEnds(record) ? record.outcomes : [],
  );
}

function isOfEnds(record: object): record is Extract<DependencyRecord, { kind: 'ends' }> {
  return 'kind' in record && record.kind === 'ends';
}
