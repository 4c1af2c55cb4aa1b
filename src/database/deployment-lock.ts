import { execute, type SqlExecutor } from './sql.js';
import { tryLock } from './try-lock.js';

/**
 * Key of the advisory lock that every serving process of a deployment holds in shared mode, by the session that
 * listens for notifications; any number nobody else uses.
 */
const DEPLOYMENT_LOCK = '4418236509127765';

/** Key of the advisory lock of the one process that looks, while it starts, whether others serve. */
const START_LOCK = '4418236509127766';

/** Takes the shared lock until the session ends, on a connection of the caller's own. */
export const JOIN_DEPLOYMENT = `select pg_advisory_lock_shared(${DEPLOYMENT_LOCK}::bigint)`;

/**
 * Whether no process of the deployment serves at this moment. None can join it then until the transaction ends. Processes
 * that ask at the same time do so one after the other, each after the end of the transaction before: so they are not taken
 * for processes that serve.
 * @param manager in a transaction
 */
export async function isAloneInDeployment(manager: SqlExecutor): Promise<boolean> {
  await execute(manager, `select pg_advisory_xact_lock($1::bigint)`, [START_LOCK]);
  return tryLock(manager, DEPLOYMENT_LOCK);
}
