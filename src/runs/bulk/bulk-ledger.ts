import type { EntityManager } from 'typeorm';
import { BulkOperationEntity } from '../../database/entities/bulk-operation.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, rows } from '../../database/sql/sql.js';
import { completeBulkEntries } from '../audit/audit.repository.js';
import type { BatchDone, BatchLedger } from '../journal/command.js';

/** Where a page of a bulk operation begins. */
export interface PagePlace {
  readonly operationId: string;
  /** Number of runs before it. */
  readonly first: number;
}

type RunningOperation = Pick<BulkOperationEntity, 'id' | 'processed' | 'refusals'>;

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

/** Bulk operations as the journal moves them on. */
class BulkLedger implements BatchLedger<PagePlace> {
  /** The operations of pages whose commit is under way. */
  readonly #operations = new WeakMap<PagePlace, RunningOperation>();

  /** @returns the pages that begin where their operations are, one of each running operation */
  async lock(manager: EntityManager, pages: readonly PagePlace[]): Promise<ReadonlySet<PagePlace>> {
    const running = await rows<RunningOperation>(
      manager,
      `select ${OPERATIONS.select('o', ['id', 'processed', 'refusals'])}
         from ${OPERATIONS.name} o
        where id = any($1::uuid[])
          and state = 'running'
        order by id
          for update`,
      [pages.map(({ operationId }) => operationId)],
    );
    const due = running.flatMap((operation) => {
      const page = pages.find(
        ({ operationId, first }) => operationId === operation.id && first === operation.processed,
      );
      if (page) this.#operations.set(page, operation);
      return page ?? [];
    });
    return new Set(due);
  }

  /** Moves the operations on, and ends those that have no further runs. */
  async write(manager: EntityManager, pages: readonly BatchDone<PagePlace>[]): Promise<void> {
    const values = pages.map(({ record, changes: count, refused }) => {
      const { refusals = [] } = this.#operations.get(record) ?? {};
      const shown = [...refusals, ...refused].slice(0, SHOWN_REFUSALS);
      return { id: record.operationId, count, refused: refused.length, refusals: shown };
    });
    const params = PAGES.params(values, { refusals: ({ refusals }) => JSON.stringify(refusals) });
    await Promise.all([
      execute(manager, RECORD, params),
      completeBulkEntries(
        manager,
        values.map(({ id }) => id),
      ),
    ]);
  }
}

export const BULK_LEDGER = new BulkLedger();
