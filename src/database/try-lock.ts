import type { DataSource, EntityManager } from 'typeorm';
import { rows, type SqlExecutor } from './sql.js';

/**
 * Takes an advisory lock until the transaction ends.
 * @param manager in a transaction
 * @param key a 64-bit number, the lock's own
 * @returns false, at once, when somebody else has it
 */
export async function tryLock(manager: SqlExecutor, key: string): Promise<boolean> {
  const [row] = await rows<{ taken: boolean }>(
    manager,
    `select pg_try_advisory_xact_lock($1::bigint) as taken`,
    [key],
  );
  return row?.taken === true;
}

/**
 * Does something in a transaction that one process at a time may be in.
 * @param key a 64-bit number, the lock's own
 * @returns null, at once, when another process is in it
 */
export function whenAlone<T>(
  dataSource: DataSource,
  key: string,
  work: (manager: EntityManager) => Promise<T>,
): Promise<T | null> {
  return dataSource.transaction(async (manager) => ((await tryLock(manager, key)) ? work(manager) : null));
}
