import { FORGET_AFTER_MS } from './worker-pool.js';
import { execute, rows, type SqlExecutor } from '../../database/sql/sql.js';

/** The database's time, read once for each statement. */
export const CLOCK = `clock as materialized (
         select date_trunc('milliseconds', clock_timestamp()) as now
       )`;

export const FORGET_AFTER = `${FORGET_AFTER_MS} * interval '1 millisecond'`;

/** Workers that one statement reads or removes. */
export const POOL_BATCH = 500;

/** Those of the API keys that have `max` workers in the shared pool, or more. */
export async function findFullKeys(
  executor: SqlExecutor,
  keyIds: readonly string[],
  max: number,
): Promise<string[]> {
  const full = await rows<{ keyId: string }>(
    executor,
    `select key_id as "keyId"
       from worker_pool
      where key_id = any($1::uuid[])
      group by key_id
     having count(*) >= $2::integer`,
    [[...new Set(keyIds)], max],
  );
  return full.map(({ keyId }) => keyId);
}

/** Removes workers without a heartbeat for so long, a batch of them. @returns their number */
export function removeSilent(
  executor: SqlExecutor,
  silentMs: number,
  which: 'all' | 'idle',
): Promise<number> {
  return execute(
    executor,
    `with removed as (
         delete from worker_pool
          where worker_id in (
                  select worker_id
                    from worker_pool
                   where last_heartbeat_at <= clock_timestamp() - $1::double precision * interval '1 millisecond'
                     and ($3::boolean or not had_run)
                   order by worker_id
                   limit $2::integer
                     for update skip locked
                )
      returning worker_id
       ),
       descriptions as (
         delete from worker_descriptions
          where worker_id in (select worker_id from removed)
       )
       select worker_id
         from removed`,
    [silentMs, POOL_BATCH, which === 'all'],
  );
}
