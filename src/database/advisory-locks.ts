import type { DataSource, EntityManager } from 'typeorm';
import { execute, rows, type SqlExecutor } from './sql/sql.js';

/** Every serving process holds this lock in shared mode, in the session that listens for notifications. */
const DEPLOYMENT_LOCK = '4418236509127765';

/** Serialises the starting processes that check whether others serve. */
const START_LOCK = '4418236509127766';

/** Takes the deployment lock until the session ends. */
export const JOIN_DEPLOYMENT = `select pg_advisory_lock_shared(${DEPLOYMENT_LOCK}::bigint)`;

/** Counts the `processes` that hold the deployment lock. */
export const COUNT_DEPLOYMENT = `select count(*)::integer as processes
         from pg_locks
        where locktype = 'advisory'
          and database = (select oid from pg_database where datname = current_database())
          and (classid::bigint << 32) + objid::bigint = ${DEPLOYMENT_LOCK}::bigint
          and objsubid = 1
          and granted`;

/**
 * Whether no process of the deployment serves. None can start to serve until the transaction ends; concurrent callers
 * wait for each other.
 * @param manager in a transaction
 */
export async function isAloneInDeployment(manager: SqlExecutor): Promise<boolean> {
  await execute(manager, `select pg_advisory_xact_lock($1::bigint)`, [START_LOCK]);
  return tryLock(manager, DEPLOYMENT_LOCK);
}

/**
 * Runs `work` in a transaction that holds an advisory lock.
 * @param key a 64-bit number
 * @returns null, at once, when another session holds the lock
 */
export function whenAlone<T>(
  dataSource: DataSource,
  key: string,
  work: (manager: EntityManager) => Promise<T>,
): Promise<T | null> {
  return dataSource.transaction(async (manager) => ((await tryLock(manager, key)) ? work(manager) : null));
}

async function tryLock(manager: SqlExecutor, key: string): Promise<boolean> {
  const [row] = await rows<{ taken: boolean }>(
    manager,
    `select pg_try_advisory_xact_lock($1::bigint) as taken`,
    [key],
  );
  return row?.taken === true;
}
