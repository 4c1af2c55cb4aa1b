import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { stringifyJson } from '@longshore/common/json/json-text';
import { ScheduleEntity, ScheduleFireEntity } from '../database/entities/schedule.entity.js';
import { sendNotice } from '../database/notices/commit-notice.js';
import { EntityTable } from '../database/sql/entity-table.js';
import { execute, rows } from '../database/sql/sql.js';
import { HELD } from '../runs/machine/run.js';
import type { OpenItem } from './fires/plan-fires.js';

/** Seconds for which other processes leave a schedule alone that one fires. */
const LEASE_S = 10;

/** Runs of a schedule that the next one replaces, at most: as many as a backfill makes. */
const MAX_REPLACED = 1_000;

/** Runs of a schedule for which one waits that waits for others as well, at most. */
const MAX_AWAITED = 50;

/** First half of the advisory locks of schedules; the second is a hash of the id. */
const PUT_LOCK = 1_417_208_836;

const SCHEDULES = new EntityTable(ScheduleEntity);
const FIRES = new EntityTable(ScheduleFireEntity);
const STORED = SCHEDULES.except(
  'revision',
  'failedInRow',
  'created',
  'skippedOverlap',
  'skippedMissed',
  'failed',
);
const NEW = SCHEDULES.unnest(STORED);
const PUT = `insert into ${SCHEDULES.name} as s (${SCHEDULES.columns(STORED)})
       select ${SCHEDULES.columns(STORED, 'v')}
         from ${NEW.sql}
           on conflict (id) do update
          set ${SCHEDULES.set(STORED, 'excluded')}, revision = s.revision + 1, failed_in_row = 0
    returning ${SCHEDULES.select('s')}`;

/** Whether a run or group `one` of `schedules s` waits for another one of it, beside or instead of what its body names. */
const waitsForOwn = (child: 'child_run' | 'child_group'): string => `exists (
                       select
                         from dependencies d
                         left join runs r on not d.is_group and r.id = d.parent_id
                         left join groups g on d.is_group and g.id = d.parent_id
                        where d.${child} = one.id
                          and d.outcome is null
                          and coalesce(r.schedule_id, g.schedule_id) = s.id
                     )`;

/** The newest runs of `schedules s` that ended so, as many as pause it by their failures. */
const newestEnded = (outcome: string): string => `(
                        select one.outcome, one.created_at, one.id
                          from runs one
                         where s.run is not null
                           and one.schedule_id = s.id
                           and one.group_id is null
                           and one.outcome = '${outcome}'
                           and one.created_at >= s.failures_since
                         order by one.created_at desc, one.id desc
                         limit s.pause_after_failures
                      )`;

const NEWEST_GROUPS = `(
                        select upper(one.state) as outcome, one.created_at, one.id
                          from groups one
                         where s.run is null
                           and one.schedule_id = s.id
                           and one.state <> 'open'
                           and one.created_at >= s.failures_since
                         order by one.created_at desc, one.id desc
                         limit s.pause_after_failures
                      )`;

/** A schedule to be stored. */
export type StoredSchedule = Pick<ScheduleEntity, (typeof STORED)[number]>;

/** A fire with the state of its run or group; null without one, or when it was removed. */
export type ShownFire = ScheduleFireEntity & {
  readonly runState: string | null;
  readonly groupState: string | null;
};

/** A schedule that a process has taken to fire it. */
export type TakenSchedule = ScheduleEntity & { readonly now: Date };

/** SQL of schedules and their fires. */
@Injectable()
export class ScheduleRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** Lets one transaction after the other store a schedule of this id, which may not exist yet. */
  async lock(manager: EntityManager, id: string): Promise<void> {
    await execute(manager, `select pg_advisory_xact_lock(${PUT_LOCK}, hashtext($1::text))`, [id]);
  }

  /** The schedule; with a transaction's manager, locked until its end. */
  async find(id: string, manager?: EntityManager): Promise<ScheduleEntity | null> {
    const [found] = await rows<ScheduleEntity>(
      manager ?? this.dataSource,
      `select ${SCHEDULES.select('s')} from ${SCHEDULES.name} s where s.id = $1::text ${manager ? 'for update' : ''}`,
      [id],
    );
    return found ?? null;
  }

  /** Stores a schedule as a whole, and tells every process when it is due. */
  async put(manager: EntityManager, schedule: StoredSchedule, now: Date): Promise<ScheduleEntity> {
    const { run, group, labels, cron, applied } = schedule;
    const values = {
      ...schedule,
      run: run && stringifyJson(run),
      group: group && stringifyJson(group),
      labels: labels && stringifyJson(labels),
      cron: cron && stringifyJson(cron),
      applied: applied && stringifyJson(applied),
    };
    const [stored] = await rows<ScheduleEntity>(manager, PUT, NEW.params([values]));
    if (!stored) throw new Error('a schedule was not stored');
    const { dueAt } = stored;
    if (dueAt) await sendNotice(manager, { scheduleInMs: Math.max(0, dueAt.getTime() - now.getTime()) });
    return stored;
  }

  /** The first ids, some at most. */
  async listIds(limit: number): Promise<string[]> {
    const found = await rows<{ id: string }>(
      this.dataSource,
      `select id from ${SCHEDULES.name} order by id limit $1::integer`,
      [limit],
    );
    return found.map(({ id }) => id);
  }

  async list(limit: number, after: string, search: string): Promise<ScheduleEntity[]> {
    return rows(
      this.dataSource,
      `select ${SCHEDULES.select('s')}
         from ${SCHEDULES.name} s
        where s.id > $1::text
          and position(lower($2::text) in lower(s.id)) > 0
        order by s.id
        limit $3::integer`,
      [after, search, limit],
    );
  }

  async remove(manager: EntityManager, id: string): Promise<void> {
    await execute(manager, `delete from ${SCHEDULES.name} where id = $1::text`, [id]);
  }

  /** Removes up to `limit` fires of a schedule. @returns how many */
  removeFires(id: string, limit: number): Promise<number> {
    return execute(
      this.dataSource,
      `delete from ${FIRES.name}
        where id in (select id from ${FIRES.name} where schedule_id = $1::text order by id limit $2::integer)`,
      [id, limit],
    );
  }

  /** Removes up to `limit` of the oldest fires, those that were made before the time. @returns how many */
  removeFiresBefore(before: Date, limit: number): Promise<number> {
    return execute(
      this.dataSource,
      `delete from ${FIRES.name}
        where id in (
                select id
                  from (select id, fired_at from ${FIRES.name} order by id limit $2::integer) oldest
                 where fired_at < $1::timestamptz
              )`,
      [before.toISOString(), limit],
    );
  }

  /** Fires of a schedule before one of them, the newest first. @param before id of a fire; null: from the newest */
  async listFires(id: string, before: string | null, limit: number): Promise<ShownFire[]> {
    const found = await this.newestFires([id], limit, before);
    return [...(found.get(id) ?? [])];
  }

  /** The newest fires of each schedule, the newest first, with the states of their runs and groups. */
  async newestFires(
    ids: readonly string[],
    limit: number,
    before: string | null = null,
  ): Promise<ReadonlyMap<string, readonly ShownFire[]>> {
    const found = await rows<ShownFire>(
      this.dataSource,
      `select ${FIRES.select('f')}, r.state as "runState", g.state as "groupState"
         from unnest($1::text[]) as s (id)
        cross join lateral (
          select *
            from ${FIRES.name} one
           where one.schedule_id = s.id
             and ($2::bigint is null or one.id < $2::bigint)
           order by one.id desc
           limit $3::integer
        ) f
         left join runs r on r.id = f.run_id
         left join groups g on g.id = f.group_id
        order by f.schedule_id, f.id desc`,
      [ids, before, limit],
    );
    const bySchedule = new Map<string, ShownFire[]>(ids.map((id) => [id, []]));
    for (const fire of found) bySchedule.get(fire.scheduleId)?.push(fire);
    return bySchedule;
  }

  /** What became of these times of a schedule, without the ranges that were missed. */
  findFires(id: string, times: readonly Date[]): Promise<ShownFire[]> {
    return rows(
      this.dataSource,
      `select ${FIRES.select('f')}, r.state as "runState", g.state as "groupState"
         from ${FIRES.name} f
         left join runs r on r.id = f.run_id
         left join groups g on g.id = f.group_id
        where f.schedule_id = $1::text
          and f.nominal_at = any($2::timestamptz[])
          and f.outcome <> 'skipped_missed'`,
      [id, times.map((time) => time.toISOString())],
    );
  }

  /** What became of a request with this key; null: none was carried out. */
  async findFireByKey(key: string): Promise<ScheduleFireEntity | null> {
    const sql = `select ${FIRES.select('f')} from ${FIRES.name} f where f.idempotency_key = $1::text`;
    const [found = null] = await rows<ScheduleFireEntity>(this.dataSource, sql, [key]);
    return found;
  }

  /** Schedules that are due by the database's clock, which other processes leave alone for a while. */
  takeDue(limit: number): Promise<TakenSchedule[]> {
    return rows(
      this.dataSource,
      `with due as (
         select id
           from ${SCHEDULES.name}
          where due_at <= clock_timestamp()
          order by due_at
          limit $1::integer
            for update skip locked
       )
       update ${SCHEDULES.name} s
          set due_at = clock_timestamp() + make_interval(secs => ${LEASE_S})
         from due
        where s.id = due.id
    returning ${SCHEDULES.select('s')}, date_trunc('milliseconds', clock_timestamp()) as now`,
      [limit],
    );
  }

  /** Lets processes take schedules at once that were taken and are still due. */
  async giveBack(ids: readonly string[]): Promise<void> {
    await execute(
      this.dataSource,
      `update ${SCHEDULES.name}
          set due_at = clock_timestamp()
        where id = any($1::text[])
          and next_at <= clock_timestamp()`,
      [ids],
    );
  }

  /** Milliseconds until a schedule is due; null: none will be. */
  async nextDueInMs(): Promise<number | null> {
    const [row] = await rows<{ ms: number | null }>(
      this.dataSource,
      `select (extract(epoch from min(due_at) - clock_timestamp()) * 1000)::float8 as ms
         from ${SCHEDULES.name}
        where due_at is not null`,
    );
    return row?.ms ?? null;
  }

  /**
   * The groups of each schedule, and its runs in no group, that have not ended, as far as its rule for overlaps depends on them: one that
   * waits, then the oldest.
   */
  async listOpen(ids: readonly string[]): Promise<ReadonlyMap<string, readonly OpenItem[]>> {
    const found = await rows<OpenItem & { readonly scheduleId: string }>(
      this.dataSource,
      `select s.id as "scheduleId", o.id, o.is_group as "isGroup", o.is_held as "isHeld"
         from ${SCHEDULES.name} s
        cross join lateral (
          select *
            from (
              select one.id, false as is_group, one.created_at,
                     one.not_before is not distinct from $2::timestamptz
                     and (one.waits_for is null or ${waitsForOwn('child_run')}) as is_held
                from runs one
               where one.schedule_id = s.id
                 and one.outcome = 'OPEN'
                 and one.group_id is null
               union all
              select one.id, true, one.created_at, one.waits_for is not null and ${waitsForOwn('child_group')}
                from groups one
               where one.schedule_id = s.id
                 and one.state = 'open'
            ) each
           order by is_held desc, created_at, id
           limit case s.overlap when 'cancel_previous' then ${MAX_REPLACED} else ${MAX_AWAITED} end
        ) o
        where s.id = any($1::text[])
          and s.overlap <> 'allow'
        order by o.is_held desc, o.created_at, o.id`,
      [ids, HELD.toISOString()],
    );
    const bySchedule = new Map<string, OpenItem[]>(ids.map((id) => [id, []]));
    for (const { scheduleId, ...item } of found) bySchedule.get(scheduleId)?.push(item);
    return bySchedule;
  }

  /** Those of the schedules whose last runs, or groups, have all FAILED, as many as pause them. */
  async listFailing(ids: readonly string[], manager?: EntityManager): Promise<readonly string[]> {
    const found = await rows<{ id: string }>(
      manager ?? this.dataSource,
      `select s.id
         from ${SCHEDULES.name} s
        cross join lateral (
          select count(*) as failures
            from (
              select outcome
                from (
                  ${['FAILED', 'COMPLETED', 'CANCELLED'].map(newestEnded).join(' union all ')}
                  union all ${NEWEST_GROUPS}
                ) ended
               order by created_at desc, id desc
               limit s.pause_after_failures
            ) last
           where outcome = 'FAILED'
        ) f
        where s.id = any($1::text[])
          and s.pause_after_failures is not null
          and s.paused_at is null
          and f.failures >= s.pause_after_failures`,
      [ids],
    );
    return found.map(({ id }) => id);
  }

  /** Ids of runs that wait for another run or group of their schedule, which has ended. */
  async listReleasable(limit: number): Promise<readonly string[]> {
    const found = await rows<{ id: string }>(
      this.dataSource,
      `with held as materialized (
         select distinct h.schedule_id, h.group_id
           from runs h
          where h.not_before = $1::timestamptz
            and h.waits_for is null
       )
       select h.id
         from held w
         join runs h on h.schedule_id = w.schedule_id
          and h.outcome = 'OPEN'
          and h.group_id is not distinct from w.group_id
          and h.not_before = $1::timestamptz
          and h.waits_for is null
        where not exists (
                select from runs o
                 where o.schedule_id = w.schedule_id
                   and o.outcome = 'OPEN'
                   and o.group_id is null
                   and (o.not_before is distinct from $1::timestamptz or o.waits_for is not null)
              )
          and not exists (
                select from groups o
                 where o.schedule_id = w.schedule_id
                   and o.state = 'open'
                   and o.id is distinct from w.group_id
              )
        limit $2::integer`,
      [HELD.toISOString(), limit],
    );
    return found.map(({ id }) => id);
  }
}
