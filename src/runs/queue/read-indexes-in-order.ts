import type { EntityManager } from 'typeorm';
import { execute } from '../../database/sql/sql.js';

/**
 * Makes the statements of the rest of the transaction read indexes in their order, as those of the journal's connections do. The
 * planner knows averages only: without this it reads and sorts all rows of a tag or key, which may have a million.
 */
export async function readIndexesInOrder(manager: EntityManager): Promise<void> {
  await execute(
    manager,
    `select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)`,
  );
}
