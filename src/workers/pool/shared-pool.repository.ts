import { Injectable } from '@nestjs/common';
import { execute, rows, unnestRows, type SqlExecutor } from '../../database/sql.js';
import { FORGET_AFTER_MS } from './forgetting-pool.js';
import { MAX_DEPARTED } from './run-reports.js';
import type { Holding, ReportedRun, SilentWorker } from './worker-pool.js';
import type { GatheredHeartbeats, WorkerDescription } from './written-heartbeat.js';

/** The database's present, told once a statement. */
const CLOCK = `clock as materialized (
         select date_trunc('milliseconds', clock_timestamp()) as now
       )`;

const FORGET_AFTER = `${FORGET_AFTER_MS} * interval '1 millisecond'`;

/** A row of `worker_pool` as it is read. */
export interface SharedWorkerRow {
  readonly id: string;
  readonly description: WorkerDescription;
  /** Null for a worker that never spoke of running runs. */
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
  /** Told only for workers whose heartbeats did not speak of running runs; null also when they never did. */
  readonly runningOps: readonly ReportedRun[] | null;
}

const COLUMNS = `w.worker_id as id,
              w.description,
              w.running_ops as "runningOps",
              w.created_at as "createdAt",
              w.last_heartbeat_at as "lastHeartbeatAt",
              w.last_heartbeat_at >= c.now - $1::double precision * interval '1 millisecond' as "isActive",
              exists (select from worker_drains d where d.worker_id = w.worker_id) as "isDraining"`;

/**
 * SQL of the tables `worker_pool` (one row a worker) and `worker_pool_epoch` (since when the pool has been filled).
 * Both are unlogged: a crash of the database empties them. `departed` maps a run to the time, in epoch milliseconds, of
 * the last report that named it, for runs that the newest report did not name any more; the entry with the empty name
 * stands for runs that were dropped because there were too many. All times are the database's.
 */
@Injectable()
export class SharedPoolRepository {
  /**
   * Writes the heartbeats of any number of workers, each worker once. Rows are locked in the order of ids, so that
   * processes that write the same workers at once wait for each other and never in a circle. Columns that would not
   * change keep the very value that they have, which costs nothing to write however large it is.
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
    const wordless = gathered.filter(({ running }) => !running).map(({ newest }) => newest.heartbeat.id);
    return rows(
      executor,
      `with ${CLOCK}
       insert into worker_pool as w (
                created_at, last_heartbeat_at, last_report_at, previous_report_at, description_hash, running_hash,
                worker_id, description, departed, running_ids, running_ops
              )
       select c.now,
              c.now,
              case when v.reports >= 1 then c.now end,
              case when v.reports >= 2 then c.now end,
              v.description_hash,
              v.running_hash,
              v.worker_id,
              v.description,
              (select jsonb_object_agg(e.id, (extract(epoch from c.now) * 1000)::bigint)
                 from jsonb_array_elements_text(v.earlier_ids) as e (id)),
              v.running_ids,
              v.running_ops
         from ${source.sql}
        cross join clock c
        order by v.worker_id collate "C"
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
              end,
              description_hash = excluded.description_hash,
              description = case
                when excluded.description_hash = w.description_hash then w.description
                else excluded.description
              end,
              running_hash = case
                when excluded.running_hash is not null then excluded.running_hash
                when w.last_heartbeat_at > excluded.last_heartbeat_at - ${FORGET_AFTER} then w.running_hash
              end,
              running_ops = case
                when excluded.running_hash = w.running_hash then w.running_ops
                when excluded.running_hash is not null then excluded.running_ops
                when w.last_heartbeat_at > excluded.last_heartbeat_at - ${FORGET_AFTER} then w.running_ops
              end,
              running_ids = case
                when excluded.running_hash is null or excluded.running_hash = w.running_hash then w.running_ids
                else excluded.running_ids
              end,
              departed = case
                when excluded.running_hash is null
                  or (excluded.running_hash = w.running_hash and excluded.departed is null) then w.departed
                else (
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
                          select value, (extract(epoch from w.last_report_at) * 1000)::bigint
                            from jsonb_array_elements_text(w.running_ids)
                        ) as named (id, t)
                       where t >= extract(epoch from excluded.last_heartbeat_at) * 1000 - $1::double precision
                         and not (excluded.running_ids ? id)
                       group by id
                    ) as gone
                )
              end
    returning w.worker_id as id,
              w.created_at as "createdAt",
              w.last_heartbeat_at as "lastHeartbeatAt",
              exists (select from worker_drains d where d.worker_id = w.worker_id) as "isDraining",
              case when w.worker_id = any($3::text[]) then w.running_ops end as "runningOps"`,
      [timeoutMs, MAX_DEPARTED, wordless, ...source.params],
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
        cross join clock c
        where w.worker_id > $2::text
          and w.last_heartbeat_at > c.now - ${FORGET_AFTER}
        order by w.worker_id
        limit $3::integer`,
      [timeoutMs, after, limit],
    );
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
        where w.previous_report_at >= j.since
          and not (w.running_ids ? v.run_id)
          and coalesce((w.departed ->> v.run_id)::double precision < j.since_ms, true)
          and coalesce((w.departed ->> '')::double precision < j.since_ms, true)`,
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
    await execute(executor, `truncate worker_pool, worker_pool_epoch`);
  }

  /** Removes workers that were silent for 24 hours; answers how many. @param limit workers at most */
  async removeForgotten(executor: SqlExecutor, limit: number): Promise<number> {
    return execute(
      executor,
      `delete from worker_pool
        where worker_id in (
                select worker_id
                  from worker_pool
                 where last_heartbeat_at <= clock_timestamp() - ${FORGET_AFTER}
                 order by worker_id
                 limit $1::integer
                   for update skip locked
              )`,
      [limit],
    );
  }
}
