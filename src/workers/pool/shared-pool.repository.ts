import { Injectable } from '@nestjs/common';
import { execute, rows, unnestRows, type SqlExecutor } from '../../database/sql.js';
import { FORGET_AFTER_MS } from './prunable-pool.js';
import { MAX_DEPARTED } from './run-reports.js';
import type { Holding, ReportedRun, SilentWorker, WorkerCounts } from './worker-pool.js';
import { NOTHING_RUNNING, type GatheredHeartbeats, type WorkerDescription } from './written-heartbeat.js';

/** The database's present, told once a statement. */
const CLOCK = `clock as materialized (
         select date_trunc('milliseconds', clock_timestamp()) as now
       )`;

const FORGET_AFTER = `${FORGET_AFTER_MS} * interval '1 millisecond'`;

/** A row of `worker_pool` as it is read. */
export interface SharedWorkerRow {
  readonly id: string;
  readonly description: WorkerDescription;
  readonly runningOps: readonly ReportedRun[] | null;
  readonly createdAt: Date;
  readonly lastHeartbeatAt: Date;
  readonly isActive: boolean;
  readonly isDraining: boolean;
}

/** What a heartbeat's answer needs from the row it was written to. */
export interface HeartbeatRow {
  readonly id: string;
  readonly createdAt: Date;
  readonly lastHeartbeatAt: Date;
  readonly isDraining: boolean;
  /** What was said before, for workers whose heartbeats did not speak of running runs; null when there is nothing. */
  readonly runningOps: readonly ReportedRun[] | null;
}

const COLUMNS = `w.worker_id as id,
              s.description,
              s.running_ops as "runningOps",
              w.created_at as "createdAt",
              w.last_heartbeat_at as "lastHeartbeatAt",
              w.last_heartbeat_at >= c.now - $1::double precision * interval '1 millisecond' as "isActive",
              exists (select from worker_drains d where d.worker_id = w.worker_id) as "isDraining"`;

/**
 * SQL of the tables `worker_pool` (one row a worker: its times), `worker_pool_words` (what it says of itself) and
 * `worker_pool_epoch` (since when the pool has been filled). All are unlogged: a crash of the database empties them. All
 * times are the database's. `departed` maps a run to the time, in epoch milliseconds, of the last report that named it,
 * for runs that the newest report did not name any more; the entry with the empty name stands for runs that were dropped
 * because there were too many.
 */
@Injectable()
export class SharedPoolRepository {
  /**
   * Writes the heartbeats of any number of workers, each worker once. Rows are locked in the order of ids, so that
   * processes that write the same workers at once wait for each other and never in a circle; what a worker says is
   * written by whoever has the row of its times. Words that are known already are not written again, however many.
   * @param timeoutMs the worker timeout: reports from before it are left out of account
   */
  async upsert(
    executor: SqlExecutor,
    gathered: readonly GatheredHeartbeats[],
    timeoutMs: number,
  ): Promise<HeartbeatRow[]> {
    const source = unnestRows(
      {
        worker_id: 'text',
        description_hash: 'uuid',
        description: 'json',
        reports: 'integer',
        running_hash: 'uuid',
        running_ids: 'jsonb',
        running_ops: 'json',
        earlier_ids: 'jsonb',
      },
      gathered.map(({ newest, running, reports, earlierIds }) => ({
        worker_id: newest.heartbeat.id,
        description_hash: newest.descriptionHash,
        description: newest.description,
        reports,
        running_hash: running?.hash ?? null,
        running_ids: running && JSON.stringify(running.ids),
        running_ops: running?.text ?? null,
        earlier_ids: earlierIds.length === 0 ? null : JSON.stringify(earlierIds),
      })),
      4,
    );
    return rows(
      executor,
      `with ${CLOCK},
       said as materialized (
         select v.*,
                c.now,
                coalesce(old.last_heartbeat_at <= c.now - ${FORGET_AFTER}, true) as is_new
           from ${source.sql}
          cross join clock c
           left join worker_pool old
             on old.worker_id = v.worker_id
       ),
       beat as (
         insert into worker_pool as w (
                  created_at, last_heartbeat_at, last_report_at, previous_report_at, worker_id
                )
         select now,
                now,
                case when reports >= 1 then now end,
                case when reports >= 2 then now end,
                worker_id
           from said
          order by worker_id collate "C"
             on conflict (worker_id) do update
            set created_at = case
                  when w.last_heartbeat_at > excluded.last_heartbeat_at - ${FORGET_AFTER} then w.created_at
                  else excluded.created_at
                end,
                last_heartbeat_at = greatest(w.last_heartbeat_at, excluded.last_heartbeat_at),
                last_report_at = greatest(w.last_report_at, excluded.last_report_at),
                previous_report_at = case
                  when excluded.last_report_at is null then w.previous_report_at
                  else coalesce(excluded.previous_report_at, w.last_report_at)
                end
      returning w.worker_id, w.created_at, w.last_heartbeat_at
       ),
       words as (
         insert into worker_pool_words as w (
                  description_hash, running_hash, worker_id, description, departed, running_ids, running_ops
                )
         select s.description_hash,
                coalesce(s.running_hash, case when s.is_new then $3::uuid end),
                s.worker_id,
                s.description,
                (select jsonb_object_agg(e.id, (extract(epoch from s.now) * 1000)::bigint)
                   from jsonb_array_elements_text(s.earlier_ids) as e (id)),
                coalesce(s.running_ids, case when s.is_new then '[]'::jsonb end),
                coalesce(s.running_ops, case when s.is_new then '[]'::json end)
           from beat b
           join said s
             on s.worker_id = b.worker_id
             on conflict (worker_id) do update
            set description_hash = excluded.description_hash,
                description = excluded.description,
                running_hash = coalesce(excluded.running_hash, w.running_hash),
                running_ids = coalesce(excluded.running_ids, w.running_ids),
                running_ops = coalesce(excluded.running_ops, w.running_ops),
                departed = case when excluded.running_hash is null then w.departed else (
                  select case
                           when count(*) > $2::integer then jsonb_build_object('', max(t))
                           else jsonb_object_agg(id, t)
                         end
                    from (
                      select id, max(t) as t
                        from (
                          select key, value::bigint
                            from jsonb_each_text(w.departed)
                           union all
                          select key, value::bigint
                            from jsonb_each_text(excluded.departed)
                           union all
                          select r.id, (extract(epoch from p.last_report_at) * 1000)::bigint
                            from worker_pool p
                           cross join jsonb_array_elements_text(w.running_ids) as r (id)
                           where p.worker_id = excluded.worker_id
                        ) as named (id, t)
                       where t >= extract(epoch from clock_timestamp()) * 1000 - $1::double precision
                         and not (excluded.running_ids ? id)
                       group by id
                    ) as gone
                ) end
          where w.description_hash <> excluded.description_hash
             or w.running_hash is distinct from coalesce(excluded.running_hash, w.running_hash)
             or excluded.departed is not null
       )
       select b.worker_id as id,
              b.created_at as "createdAt",
              b.last_heartbeat_at as "lastHeartbeatAt",
              exists (select from worker_drains d where d.worker_id = b.worker_id) as "isDraining",
              case when s.reports = 0 and not s.is_new then (
                select w.running_ops from worker_pool_words w where w.worker_id = b.worker_id
              ) end as "runningOps"
         from beat b
         join said s
           on s.worker_id = b.worker_id`,
      [timeoutMs, MAX_DEPARTED, NOTHING_RUNNING, ...source.params],
    );
  }

  /** Those of the workers that are registered, in no order. */
  async findAll(
    executor: SqlExecutor,
    ids: readonly string[],
    timeoutMs: number,
  ): Promise<SharedWorkerRow[]> {
    return rows(
      executor,
      `with ${CLOCK}
       select ${COLUMNS}
         from worker_pool w
         join worker_pool_words s
           on s.worker_id = w.worker_id
        cross join clock c
        where w.worker_id = any($2::text[])
          and w.last_heartbeat_at > c.now - ${FORGET_AFTER}`,
      [timeoutMs, ids],
    );
  }

  /** Registered workers by id. @param after the id behind which to begin; empty for the first @param limit at most */
  async list(
    executor: SqlExecutor,
    after: string,
    limit: number,
    timeoutMs: number,
  ): Promise<SharedWorkerRow[]> {
    return rows(
      executor,
      `with ${CLOCK}
       select ${COLUMNS}
         from worker_pool w
         join worker_pool_words s
           on s.worker_id = w.worker_id
        cross join clock c
        where w.worker_id > $2::text
          and w.last_heartbeat_at > c.now - ${FORGET_AFTER}
        order by w.worker_id
        limit $3::integer`,
      [timeoutMs, after, limit],
    );
  }

  /** How many workers are registered, by group. */
  async count(executor: SqlExecutor, timeoutMs: number): Promise<WorkerCounts> {
    const [row] = await rows<Record<keyof WorkerCounts, string>>(
      executor,
      `with ${CLOCK},
       judged as materialized (
         select w.last_heartbeat_at >= c.now - $1::double precision * interval '1 millisecond' as is_active,
                d.worker_id is not null as is_draining
           from worker_pool w
          cross join clock c
           left join worker_drains d
             on d.worker_id = w.worker_id
          where w.last_heartbeat_at > c.now - ${FORGET_AFTER}
       )
       select count(*) filter (where is_active and not is_draining) as active,
              count(*) filter (where is_active and is_draining) as draining,
              count(*) filter (where not is_active) as stale
         from judged`,
      [timeoutMs],
    );
    return {
      active: Number(row?.active ?? 0),
      draining: Number(row?.draining ?? 0),
      stale: Number(row?.stale ?? 0),
    };
  }

  /** Those of the workers that are silent, or unknown to a pool that has been filled for longer than the timeout. */
  async findSilent(
    executor: SqlExecutor,
    ids: readonly string[],
    timeoutMs: number,
  ): Promise<SilentWorker[]> {
    return rows(
      executor,
      `with ${CLOCK},
       judged as materialized (
         select c.now - $1::double precision * interval '1 millisecond' as since,
                c.now - ${FORGET_AFTER} as forgotten
           from clock c
       )
       select asked.id,
              w.last_heartbeat_at as "lastHeartbeatAt"
         from unnest($2::text[]) as asked (id)
        cross join judged j
         left join worker_pool w
                on w.worker_id = asked.id
               and w.last_heartbeat_at > j.forgotten
        where w.last_heartbeat_at < j.since
           or (w.worker_id is null and exists (select from worker_pool_epoch e where e.started_at < j.since))`,
      [timeoutMs, ids],
    );
  }

  /** Those of the holdings whose worker has left the run out of all its reports of late, two at least. */
  async findUnreported(
    executor: SqlExecutor,
    holdings: readonly Holding[],
    timeoutMs: number,
  ): Promise<Holding[]> {
    const source = unnestRows(
      { run_id: 'text', worker_id: 'text' },
      holdings.map(({ runId, workerId }) => ({ run_id: runId, worker_id: workerId })),
      2,
    );
    return rows(
      executor,
      `with ${CLOCK},
       judged as materialized (
         select c.now - $1::double precision * interval '1 millisecond' as since,
                extract(epoch from c.now) * 1000 - $1::double precision as since_ms
           from clock c
       )
       select v.run_id as "runId",
              v.worker_id as "workerId"
         from ${source.sql}
        cross join judged j
         join worker_pool w
           on w.worker_id = v.worker_id
          and w.previous_report_at >= j.since
         join worker_pool_words s
           on s.worker_id = w.worker_id
        where not (s.running_ids ? v.run_id)
          and coalesce((s.departed ->> v.run_id)::double precision < j.since_ms, true)
          and coalesce((s.departed ->> '')::double precision < j.since_ms, true)`,
      [timeoutMs, ...source.params],
    );
  }

  /** Notes that the pool is being filled from now on, unless that is noted already. */
  async begin(executor: SqlExecutor): Promise<void> {
    await execute(
      executor,
      `insert into worker_pool_epoch (started_at)
       select clock_timestamp()
        where not exists (select from worker_pool_epoch)
           on conflict (only_row) do nothing`,
    );
  }

  /** Empties the pool. */
  async empty(executor: SqlExecutor): Promise<void> {
    await execute(executor, `truncate worker_pool, worker_pool_words, worker_pool_epoch`);
  }

  /** Removes workers that were silent for 24 hours; answers how many. @param limit workers at most */
  async removeForgotten(executor: SqlExecutor, limit: number): Promise<number> {
    return execute(
      executor,
      `with removed as (
         delete from worker_pool
          where worker_id in (
                  select worker_id
                    from worker_pool
                   where last_heartbeat_at <= clock_timestamp() - ${FORGET_AFTER}
                   order by worker_id
                   limit $1::integer
                     for update skip locked
                )
      returning worker_id
       ),
       silenced as (
         delete from worker_pool_words
          where worker_id in (select worker_id from removed)
       )
       select worker_id
         from removed`,
      [limit],
    );
  }
}
