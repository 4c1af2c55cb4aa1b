import type { EntityManager } from 'typeorm';
import { execute, RowArrays, rows } from '../../database/sql/sql.js';

/** When the timer of a run is due; null: it has none. */
export interface RunTimer {
  readonly runId: string;
  readonly dueAt: Date | null;
}

const PUT = `insert into run_timers (run_id, due_at)
       select v.*
         from unnest($1::uuid[], $2::timestamptz[]) as v (run_id, due_at)
           on conflict (run_id) do update
          set due_at = excluded.due_at`;
const NEW_TIMERS = RowArrays.of<'runId' | 'dueAt'>(PUT);

/** Sets the timers of new or changed runs. */
export async function putTimers(
  manager: EntityManager,
  timers: readonly { readonly runId: string; readonly dueAt: Date }[],
): Promise<void> {
  await execute(manager, PUT, NEW_TIMERS.params(timers));
}

/** A run whose timer is due. */
export interface DueRun {
  readonly runId: string;
  /**
   * Of a run that has not been started in time: equal for runs that wait for the same. Runs that are assigned are alike only if they
   * are the same. Null: of another timer.
   */
  readonly unstartedLike: string | null;
}

/** Runs whose timer is due, the longest overdue first. */
export function listDue(manager: EntityManager, now: Date, limit: number): Promise<DueRun[]> {
  return rows(
    manager,
    `select d.run_id as "runId",
            (select case when r.state = 'PENDING'
                      then jsonb_build_array(r.requirement_id, r.concurrency_key, r.avoided_worker, r.ram_mb, r.vram_mb, r.cpu,
                        r.extra_constraints)::text
                      else r.id::text
                    end
               from runs r
              where r.id = d.run_id
                and r.state in ('PENDING', 'ASSIGNED')
                and r.not_before is null
                and r.queued_at + make_interval(secs => r.start_within_s) <= $1::timestamptz
            ) as "unstartedLike"
       from (select run_id, due_at
               from run_timers
              where due_at <= $1::timestamptz
              order by due_at, run_id
              limit $2) d
      order by d.due_at, d.run_id`,
    [now.toISOString(), limit],
  );
}

/** Milliseconds until the earliest timer by the database's clock; negative when it is overdue, null for none. */
export async function nextDueInMs(manager: EntityManager): Promise<number | null> {
  const [next] = await rows<{ readonly inMs: number | null }>(
    manager,
    `select (extract(epoch from min(due_at) - clock_timestamp()) * 1000)::double precision as "inMs"
       from run_timers`,
  );
  return next?.inMs ?? null;
}

/** Postpones timers that were due at `now`; timers set since then stay. Skips locked rows, so it never waits. */
export async function postponeTimers(
  manager: EntityManager,
  runIds: readonly string[],
  now: Date,
  until: Date,
): Promise<void> {
  await execute(
    manager,
    `update run_timers
        set due_at = $3::timestamptz
      where run_id in (
              select run_id
                from run_timers
               where run_id = any($1::uuid[])
                 and due_at <= $2::timestamptz
                 for update skip locked
            )`,
    [runIds, now.toISOString(), until.toISOString()],
  );
}

export async function removeTimers(manager: EntityManager, runIds: readonly string[]): Promise<void> {
  await execute(
    manager,
    `delete from run_timers
      where run_id = any($1::uuid[])`,
    [runIds],
  );
}
