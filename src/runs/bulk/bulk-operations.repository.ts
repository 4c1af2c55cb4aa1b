import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { BulkOperationEntity } from '../../database/entities/bulk-operation.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, rows, type Statement } from '../../database/sql/sql.js';
import { MAX_BULK_ITEMS } from '../../common/http/validation/bulk-items.js';
import { isRunId } from '../machine/new-id.js';
import type { RunState } from '../machine/run-state.js';
import { findDriver } from '../reading/list-conditions.js';
import { selectRunIds } from '../reading/list-runs.js';
import type { RunFilter } from '../reading/run-filter.js';
import { RUNS } from '../storage/run-columns.js';

/** Runs that an operation may change. */
export const MAX_MATCHED = 100_000;

/** Seconds for which other processes leave an operation alone whose page one has begun. */
const PAGE_LEASE_S = 10;

const OPERATIONS = new EntityTable(BulkOperationEntity);
const GIVEN = ['id', 'action', 'filter', 'value', 'reason', 'keyId', 'keyName', 'isAdmin'] as const;
const SHOWN = OPERATIONS.except('runIds', 'dueAt', 'turnAt');

/** First key of the advisory locks on API keys that start operations. */
const START_LOCK = 7_301_906;

/** An operation without its runs. */
export type BulkOperation = Omit<BulkOperationEntity, 'runIds' | 'dueAt' | 'turnAt'>;

/** An operation with the runs of its next page. */
export type BulkPage = BulkOperation & { readonly page: readonly string[] };

/** An operation to be stored; the value as JSON text. */
export type NewBulkOperation = Pick<BulkOperation, Exclude<(typeof GIVEN)[number], 'value'>> & {
  readonly value: string | null;
};

/** What the running operations of an API key come to. */
export interface UnderWay {
  readonly operations: number;
  /** Runs that they have still to do. */
  readonly runs: number;
}

@Injectable()
export class BulkOperationRepository {
  constructor(private readonly dataSource: DataSource) {}

  /** How many runs pass the filter, by state; in sum up to one more than an operation may change. */
  async count(filter: RunFilter): Promise<ReadonlyMap<RunState, number>> {
    const { manager } = this.dataSource;
    const { sql, params } = await this.#selectIds(manager, filter);
    const counts = await rows<{ state: RunState; count: number }>(
      manager,
      `select r.state, count(*)::integer as count
         from (${sql}) found
         join ${RUNS.name} r on r.id = found.id
        group by r.state`,
      params,
    );
    return new Map(counts.map(({ state, count }) => [state, count]));
  }

  /** Lets one transaction after the other start operations of an API key. */
  async lockKey(manager: EntityManager, keyId: string): Promise<void> {
    await execute(manager, `select pg_advisory_xact_lock(${START_LOCK}, hashtext($1::text))`, [keyId]);
  }

  async underWay(manager: EntityManager, keyId: string): Promise<UnderWay> {
    const [row] = await rows<UnderWay>(
      manager,
      `select count(*)::integer as operations,
              coalesce(sum(matched - processed), 0)::float8 as runs
         from ${OPERATIONS.name}
        where key_id = $1::uuid
          and state = 'running'`,
      [keyId],
    );
    return row ?? { operations: 0, runs: 0 };
  }

  /** Stores an operation with the runs that pass the filter now. @returns how many */
  async insert(manager: EntityManager, operation: NewBulkOperation, filter: RunFilter): Promise<number> {
    const { sql, params } = await this.#selectIds(manager, filter);
    const given = OPERATIONS.unnest(GIVEN, { firstParam: params.length + 1 });
    const [row] = await rows<{ matched: number }>(
      manager,
      `insert into ${OPERATIONS.name} (
              ${OPERATIONS.columns(GIVEN)}, refusals, created_at, due_at, run_ids, matched, state, ended_at)
       select ${OPERATIONS.columns(GIVEN, 'v')}, '[]', clock_timestamp(), clock_timestamp(), f.ids, cardinality(f.ids),
              case when cardinality(f.ids) = 0 then 'done' else 'running' end,
              case when cardinality(f.ids) = 0 then clock_timestamp() end
         from ${given.sql}
        cross join (select coalesce(array_agg(id order by id desc), '{}') as ids from (${sql}) found) f
    returning matched`,
      [...params, ...given.params([operation])],
    );
    return row?.matched ?? 0;
  }

  async find(id: string): Promise<BulkOperation | null> {
    if (!isRunId(id)) return null;
    const [found] = await rows<BulkOperation>(
      this.dataSource.manager,
      `select ${OPERATIONS.select('o', SHOWN)} from ${OPERATIONS.name} o where id = $1::uuid`,
      [id],
    );
    return found ?? null;
  }

  /** Ends a running operation. @returns null: it is not running */
  async stop(manager: EntityManager, id: string): Promise<BulkOperation | null> {
    const [stopped] = await rows<BulkOperation>(
      manager,
      `update ${OPERATIONS.name} o
          set state = 'stopped', ended_at = clock_timestamp(), run_ids = '{}'
        where id = $1::uuid
          and state = 'running'
    returning ${OPERATIONS.select('o', SHOWN)}`,
      [id],
    );
    return stopped ?? null;
  }

  /**
   * The next page, of the operation whose turn it is; other processes leave it alone for a while. Admins' operations go first. API keys
   * take turns, and so do the operations of a key: those that have ended count, so that a key with many short ones gets no more than others.
   */
  async takePage(): Promise<BulkPage | null> {
    const [page] = await rows<BulkPage>(
      this.dataSource.manager,
      `update ${OPERATIONS.name} o
          set due_at = clock_timestamp() + make_interval(secs => ${PAGE_LEASE_S}),
              turn_at = clock_timestamp()
        where id = (
                select w.id
                  from ${OPERATIONS.name} w
                 where w.state = 'running'
                   and w.due_at <= clock_timestamp()
                 order by w.is_admin desc,
                          (select max(k.turn_at) from ${OPERATIONS.name} k where k.key_id = w.key_id) nulls first,
                          w.turn_at nulls first,
                          w.id
                 limit 1
                   for update skip locked
              )
    returning ${OPERATIONS.select('o', SHOWN)},
              o.run_ids[o.processed + 1 : o.processed + ${MAX_BULK_ITEMS}] as page`,
    );
    return page ?? null;
  }

  /** Lets the page be begun again in a second. */
  async postponePage({ id, processed }: BulkPage): Promise<void> {
    await execute(
      this.dataSource.manager,
      `update ${OPERATIONS.name}
          set due_at = clock_timestamp() + interval '1 second'
        where id = $1::uuid
          and processed = $2::integer
          and state = 'running'`,
      [id, processed],
    );
  }

  /** Milliseconds until a page is due; null: none is left. */
  async nextDueInMs(): Promise<number | null> {
    const [row] = await rows<{ ms: number | null }>(
      this.dataSource.manager,
      `select (extract(epoch from min(due_at) - clock_timestamp()) * 1000)::float8 as ms
         from ${OPERATIONS.name}
        where state = 'running'`,
    );
    return row?.ms ?? null;
  }

  /** Removes up to `limit` operations that ended before the time. @returns how many */
  removeEnded(before: Date, limit: number): Promise<number> {
    return execute(
      this.dataSource.manager,
      `delete from ${OPERATIONS.name}
        where id in (
                select id
                  from ${OPERATIONS.name}
                 where ended_at < $1::timestamptz
                 order by ended_at
                 limit $2::integer
                   for update skip locked
              )`,
      [before.toISOString(), limit],
    );
  }

  async #selectIds(manager: EntityManager, filter: RunFilter): Promise<Statement> {
    return selectRunIds(filter, MAX_MATCHED, await findDriver(manager, filter));
  }
}
