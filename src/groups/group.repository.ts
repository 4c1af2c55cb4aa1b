import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { GroupEntity } from '../database/entities/group.entity.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { execute, plainArray, rows } from '../database/sql/sql.js';
import { isRunId } from '../runs/machine/new-id.js';
import type { RunState } from '../runs/machine/run-state.js';
import type { Dependency, Need } from '../runs/machine/run.js';
import { fewUnstarted } from '../runs/storage/groups.js';
import { countConditions, listGroups, type GroupFilter, type GroupPlace } from './group-list.js';
import { GroupNotFound } from './groups.errors.js';

const GROUPS = new EntityTable(GroupEntity);

/** An edge of a graph. */
export interface FoundEdge {
  readonly child: string;
  /** Null: a schedule is still to make it, or has made none. */
  readonly parentId: string | null;
  readonly isGroup: boolean;
  readonly need: Need;
  readonly outcome: 'met' | 'broken' | null;
  readonly since: string;
}

export interface FoundNode {
  readonly id: string;
  readonly kind: 'run' | 'group';
  readonly ref: string | null;
  readonly index: number | null;
  readonly name: string | null;
  readonly state: string | null;
}

/** A member of a group. */
export interface FoundMember {
  readonly id: string;
  readonly state: RunState;
  readonly cause: string | null;
  readonly attempt: number;
  readonly finishedAt: Date | null;
}

/** Seconds for which other processes leave a group alone whose members one makes. */
const LEASE_S = 10;

/** Failed members that an answer shows. */
const SHOWN_FAILURES = 100;

// As long ranges of an array may fail.
const READ_FAILURES = 1_000;

/** SQL of groups and of what waits for them. */
@Injectable()
export class GroupRepository {
  constructor(private readonly dataSource: DataSource) {}

  async find(id: string): Promise<GroupEntity | null> {
    const [found] = await rows<GroupEntity>(
      this.dataSource,
      `select ${GROUPS.select('g')}
         from ${GROUPS.name} g
        where g.id = $1::uuid`,
      [id],
    );
    return found ?? null;
  }

  /** @throws GroupNotFound */
  async get(id: string): Promise<GroupEntity> {
    const found = isRunId(id) ? await this.find(id) : null;
    if (!found) throw new GroupNotFound(id);
    return found;
  }

  async findByKey(idempotencyKey: string): Promise<GroupEntity | null> {
    const [found] = await rows<GroupEntity>(
      this.dataSource,
      `select ${GROUPS.select('g')}
         from ${GROUPS.name} g
        where g.idempotency_key = $1::text`,
      [idempotencyKey],
    );
    return found ?? null;
  }

  /** The newest first. @param place the last group of the page before */
  async list(limit: number, place: GroupPlace | null, filter: GroupFilter): Promise<GroupEntity[]> {
    const counting = countConditions(filter);
    const [rarest] = counting
      ? await rows<{ key: number }>(this.dataSource, counting.sql, counting.params)
      : [];
    const { sql, params } = listGroups(limit, place, filter, rarest?.key);
    return rows(this.dataSource, sql, params);
  }

  /** The first members that FAILED, by index or in the order of their creation. */
  async listFailed(id: string): Promise<readonly (number | string)[]> {
    const found = await rows<{ place: number | string }>(
      this.dataSource,
      `select coalesce(to_json(r.array_index), to_json(r.group_ref)) as place
         from runs r
        where r.group_id = $1::uuid
          and r.outcome = 'FAILED'
        order by r.array_index, r.created_at, r.id
        limit $2::integer`,
      [id, READ_FAILURES],
    );
    const places = found.map(({ place }) => place);
    return typeof places[0] === 'string' ? places.slice(0, SHOWN_FAILURES) : places;
  }

  /** The members, in the order of their ids. @param haveFailed those that FAILED, or the others; null: all */
  listMembers(
    id: string,
    after: string | null,
    limit: number,
    haveFailed: boolean | null = null,
  ): Promise<FoundMember[]> {
    return rows(
      this.dataSource,
      `select r.id, r.state, r.cause, r.attempt, r.finished_at as "finishedAt"
         from runs r
        where r.group_id = $1::uuid
          and ($2::uuid is null or r.id > $2::uuid)
          and ($4::boolean is null or (r.outcome = 'FAILED') = $4::boolean)
        order by r.id
        limit $3::integer`,
      [id, after, limit, haveFailed],
    );
  }

  /** Members that have not ended. */
  async listOpen(id: string, limit: number): Promise<readonly string[]> {
    const found = await rows<{ id: string }>(
      this.dataSource,
      `select r.id
         from runs r
        where r.group_id = $1::uuid
          and r.outcome = 'OPEN'
        order by r.created_at, r.id
        limit $2::integer`,
      [id, limit],
    );
    return found.map(({ id: runId }) => runId);
  }

  /** The members of an array with these indexes, by index. */
  async findAt(id: string, from: number, until: number): Promise<ReadonlyMap<number, string>> {
    const found = await rows<{ id: string; index: number }>(
      this.dataSource,
      `select r.id, r.array_index as index
         from runs r
        where r.group_id = $1::uuid
          and r.array_index between $2::integer and $3::integer`,
      [id, from, until],
    );
    return new Map(found.map(({ id: runId, index }) => [index, runId]));
  }

  /** What these runs wait for, or have waited for. */
  listEdges(runIds: readonly string[]): Promise<(FoundEdge & { readonly id: string })[]> {
    return rows(
      this.dataSource,
      `select d.id, d.child_run as child, d.parent_id as "parentId", d.is_group as "isGroup", d.need, d.outcome, d.since
         from dependencies d
        where d.child_run = any($1::uuid[])
        order by d.id`,
      [plainArray(runIds)],
    );
  }

  /** Whether an array waits for something that ended otherwise than it needs. */
  async isBroken(id: string): Promise<boolean> {
    const found = await rows(
      this.dataSource,
      `select id from dependencies where child_group = $1::uuid and outcome = 'broken' limit 1`,
      [id],
    );
    return found.length > 0;
  }

  /** Names and states of runs and groups. */
  listNodes(ids: readonly string[]): Promise<FoundNode[]> {
    return rows(
      this.dataSource,
      `select r.id, 'run' as kind, r.group_ref as ref, r.array_index as index, r.name, r.state
         from runs r
        where r.id = any($1::uuid[])
        union all
       select g.id, 'group', null, null, g.name, g.state
         from groups g
        where g.id = any($1::uuid[])`,
      [plainArray(ids)],
    );
  }

  /** Which of these are runs or groups. */
  async known(dependencies: readonly Dependency[]): Promise<ReadonlySet<string>> {
    if (dependencies.length === 0) return new Set();
    const found = await this.listNodes(dependencies.map(({ parentId }) => parentId));
    return new Set(found.map(({ id, kind }) => `${kind} ${id}`));
  }

  /** A group of which members are to be made or cancelled, which other processes leave alone for some seconds; null: none is. */
  async takeDue(): Promise<GroupEntity | null> {
    const [taken] = await rows<GroupEntity>(
      this.dataSource,
      `with due as (
         select id
           from ${GROUPS.name}
          where due_at <= clock_timestamp()
          order by due_at
          limit 1
            for update skip locked
       )
       update ${GROUPS.name} g
          set due_at = clock_timestamp() + make_interval(secs => ${LEASE_S})
         from due
        where g.id = due.id
    returning ${GROUPS.select('g')}`,
    );
    return taken ?? null;
  }

  /** Milliseconds until a group is due; null: none will be. */
  async nextDueInMs(): Promise<number | null> {
    const [row] = await rows<{ ms: number | null }>(
      this.dataSource,
      `select (extract(epoch from min(due_at) - clock_timestamp()) * 1000)::float8 as ms
         from ${GROUPS.name}
        where due_at is not null`,
    );
    return row?.ms ?? null;
  }

  /**
   * Says when the group is due next: at once, if members are to be made or cancelled by its numbers; else when they change.
   * @param waitMs it waits for another group, and is looked at later
   */
  async settle(id: string, waitMs = 0): Promise<void> {
    await execute(
      this.dataSource,
      `update ${GROUPS.name} g
          set due_at = case
                when stop_cause is not null and pending + assigned + running > 0
                  or stop_cause is null and array_body is not null and waits_for is null and created < size and pending < ${fewUnstarted('g')}
                  then clock_timestamp() + make_interval(secs => $2::float8 / 1000)
              end
        where id = $1::uuid`,
      [id, waitMs],
    );
  }
}
