import type { SqlExecutor } from './sql.js';
import { tryLock } from './try-lock.js';

/**
 * Key of the advisory lock that every serving process of a deployment holds in shared mode, by the session that
 * listens for notifications; any number nobody else uses.
 */
const DEPLOYMENT_LOCK = '4418236509127765';

/** Takes the shared lock until the session ends, on a connection of the caller's own. */
export const JOIN_DEPLOYMENT = `select pg_advisory_lock_shared(${DEPLOYMENT_LOCK}::bigint)`;

/**
 * Whether no process of the deployment serves at this moment. None can join it then until the transaction ends.
 * @param manager in a transaction
 */
export function isAloneInDeployment(manager: SqlExecutor): Promise<boolean> {
  return tryLock(manager, DEPLOYMENT_LOCK);
}
