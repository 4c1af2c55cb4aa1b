import { rows, type SqlExecutor } from '../../../src/database/sql/sql.js';

/** The sessions of processes that listen for commit notices: they hold the shared lock of the deployment. */
const LISTENING = `from pg_locks
                  where locktype = 'advisory'
                    and mode = 'ShareLock'
                    and granted
                    and database = (select oid from pg_database where datname = current_database())`;

/** How many processes listen. */
export async function countListening(executor: SqlExecutor): Promise<number> {
  const found = await rows(executor, `select pid ${LISTENING}`);
  return found.length;
}

/** Ends the sessions of all processes that listen. */
export async function endListening(executor: SqlExecutor): Promise<void> {
  await rows(executor, `select pg_terminate_backend(pid) ${LISTENING}`);
}
