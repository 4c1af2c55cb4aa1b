import { rows, type SqlExecutor } from './sql.js';

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
export async function isAloneInDeployment(manager: SqlExecutor): Promise<boolean> {
  const [row] = await rows<{ taken: boolean }>(
    manager,
    `select pg_try_advisory_xact_lock($1::bigint) as taken`,
    [DEPLOYMENT_LOCK],
  );
  return row?.taken === true;
}
