import type { EntityManager } from 'typeorm';
import { BulkOperationEntity, type BulkRefusal } from '../../database/entities/bulk-operation.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, rows } from '../../database/sql/sql.js';

/** Where a page of a bulk operation begins. */
export interface PagePlace {
  readonly operationId: string;
  /** Number of runs before it. */
  readonly first: number;
}

/** How far a running operation is. */
export type RunningOperation = Pick<BulkOperationEntity, 'id' | 'processed' | 'refusals'>;

/** What a page did. */
export interface PageProgress {
  readonly operationId: string;
  /** Number of its runs, and of those that it refused. */
  readonly count: number;
  readonly refused: number;
  /** The refused runs that the operation shows from then on. */
  readonly refusals: readonly BulkRefusal[];
}

/** Refused runs that an operation shows. */
const SHOWN_REFUSALS = 100;

const OPERATIONS = new EntityTable(BulkOperationEntity);
const PAGES = OPERATIONS.unnest(['id', 'refused', 'refusals'], { extra: { count: 'integer' } });
const IS_LAST = 'o.processed + v.count = o.matched';
const RECORD = `update ${OPERATIONS.name} o
          set processed = o.processed + v.count,
              refused = o.refused + v.refused,
              refusals = v.refusals,
              due_at = clock_timestamp(),
              state = case when ${IS_LAST} then 'done' else o.state end,
              ended_at = case when ${IS_LAST} then clock_timestamp() end,
              run_ids = case when ${IS_LAST} then '{}' else o.run_ids end
         from ${PAGES.sql}
        where o.id = v.id`;

/** Locks running operations until the transaction ends, in the order of their ids, which prevents deadlocks. @returns them by id */
export async function lockRunning(
  manager: EntityManager,
  ids: readonly string[],
): Promise<ReadonlyMap<string, RunningOperation>> {
  const running = await rows<RunningOperation>(
    manager,
    `select ${OPERATIONS.select('o', ['id', 'processed', 'refusals'])}
       from ${OPERATIONS.name} o
      where id = any($1::uuid[])
        and state = 'running'
      order by id
        for update`,
    [ids],
  );
  return new Map(running.map((operation) => [operation.id, operation]));
}

/** How far an operation is after a page. */
export function progressOf(
  { id, refusals }: RunningOperation,
  count: number,
  refused: readonly BulkRefusal[],
): PageProgress {
  const shown = [...refusals, ...refused].slice(0, SHOWN_REFUSALS);
  return { operationId: id, count, refused: refused.length, refusals: shown };
}

/** Moves locked operations on, and ends those that have no further runs. */
export async function recordPages(manager: EntityManager, pages: readonly PageProgress[]): Promise<void> {
  const params = PAGES.params(
    pages.map(({ operationId: id, ...page }) => ({ id, ...page })),
    { refusals: ({ refusals }) => JSON.stringify(refusals) },
  );
  await execute(manager, RECORD, params);
}
