import { Client, Pool, type PoolClient } from 'pg';
import { EntityManager, TypeORMError } from 'typeorm';
import type { DataSource, QueryRunner } from 'typeorm';
import { jsonText } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import { Pipeline, queryFailed, statementName } from './pipeline.js';

/** A transaction's manager or query runner, a connection, or the data source for a single statement. */
export type SqlExecutor = EntityManager | DataSource | QueryRunner | Client;

/**
 * Values of {@link unnestRows}. A JSON column takes an object, or any other JSON value as its text: a JSON null is
 * `'null'`, an SQL null is null.
 */
export type UnnestValue =
  | string
  | number
  | bigint
  | boolean
  | Date
  | Buffer
  | JsonObject
  | readonly string[]
  | null;

/** A statement that is sent later, alone or as part of another one. */
export interface Statement {
  readonly sql: string;
  readonly params: readonly unknown[];
}

/** Rows of any statement; TypeORM's own `query` returns a different shape for each kind. @throws QueryFailedError */
export async function rows<T>(
  executor: SqlExecutor,
  sql: string,
  params: readonly unknown[] = [],
): Promise<T[]> {
  const { records } = await run(executor, sql, params);
  return records;
}

/** @returns the number of rows that were inserted, updated, deleted or selected. @throws QueryFailedError */
export async function execute(
  executor: SqlExecutor,
  sql: string,
  params: readonly unknown[] = [],
): Promise<number> {
  const { affected } = await run(executor, sql, params);
  return affected ?? 0;
}

/**
 * Rows of a statement outside of transactions whose text never varies: it is prepared once per connection.
 * @throws QueryFailedError
 */
export async function preparedRows<T extends object>(
  source: DataSource,
  sql: string,
  params: readonly unknown[],
): Promise<T[]> {
  const client = await acquireConnection(source);
  try {
    const query = { name: statementName(sql), text: sql, values: [...params] };
    return (await client.query<T>(query)).rows;
  } catch (error) {
    throw queryFailed(sql, params, error);
  } finally {
    client.release();
  }
}

/**
 * The database's clock, to the millisecond. Unlike `now()` it advances during a transaction: read after locks are taken, it
 * is not before the time that their last holder saw.
 */
export async function currentTime(executor: SqlExecutor): Promise<Date> {
  const [row] = await rows<{ now: Date }>(
    executor,
    `select date_trunc('milliseconds', clock_timestamp()) as now`,
  );
  if (row === undefined) throw new Error('the database did not return its time');
  return row.now;
}

/**
 * Turns row objects into a table expression `v`, so that a statement takes any number of rows with one parameter per column:
 *
 *     const source = unnestRows({ id: 'uuid', msg: 'text' }, [{ id, msg }], 2);
 *     await execute(manager, `update runs r set msg = v.msg from ${source.sql} where r.id = v.id and r.n = $1`,
 *       [n, ...source.params]);
 *
 * @param columns maps a column to its type, which is not an array; both become part of the text
 * @returns `unnest($2::uuid[], ...) as v ("id", ...)`, for use in a `from`, and the arrays as literals
 * @throws TypeError when a row lacks a column; RangeError for an invalid Date, or a name or type that is no plain SQL name
 */
export function unnestRows<C extends Record<string, string>>(
  columns: C,
  source: readonly { readonly [K in keyof C & string]: UnnestValue }[],
  firstParam = 1,
): { readonly sql: string; readonly params: readonly unknown[] } {
  const entries = Object.entries(columns).map(([name, type]) => ({ key: name, name, type }));
  const unnest = new UnnestColumns<keyof C & string>(entries, firstParam);
  return { sql: unnest.sql, params: unnest.params(source) };
}

/** The array literal of UUIDs or numbers, which need no escapes: ten times as fast as the driver's own. */
export function plainArray(values: readonly string[]): string {
  return `{${values.join(',')}}`;
}

/** Rows as the parameters of a statement, one array for each column. */
export class RowArrays<K extends string> {
  /** @param columns `key` is the property of row objects */
  constructor(private readonly columns: readonly Readonly<Record<'key' | 'type', string>>[]) {}

  /**
   * Of a statement that is written out with `unnest($1::uuid[], $2::text[]) as v (id, worker_id)`: rows have the
   * properties `id` and `workerId`.
   * @throws TypeError unless each array has a name
   */
  static of<K extends string>(sql: string): RowArrays<K> {
    const [, arrays = '', names = ''] = /unnest\(([^)]*)\)\s+as v \(([^)]*)\)/.exec(sql) ?? [];
    const types = arrays.match(/(?<=::)[a-z]+(?=\[\])/g) ?? [];
    const keys = (names.match(/\w+/g) ?? []).map((name) =>
      name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    );
    if (types.length === 0 || types.length !== keys.length)
      throw new TypeError(`not an array per name: ${sql}`);
    return new RowArrays(types.map((type, i) => ({ key: keys[i] ?? '', type })));
  }

  /**
   * The array literals of the columns.
   * @param computed functions for columns that are no properties of the rows: copying rows to add them is expensive
   * @throws TypeError when a row lacks a column; RangeError for an invalid Date
   */
  params<R extends Readonly<Record<Exclude<K, C>, UnnestValue>>, C extends K = never>(
    source: readonly R[],
    computed?: { readonly [key in C]: (row: R, index: number) => UnnestValue },
  ): string[] {
    const functions: Partial<Record<string, (row: R, index: number) => UnnestValue>> = computed ?? {};
    const byKey: readonly { readonly [key: string]: UnnestValue | undefined }[] = source;
    return this.columns.map(({ key, type }) => {
      const compute = functions[key];
      const values = compute ? source.map(compute) : byKey.map((row) => row[key]);
      return arrayLiteral(values, key, isJson(type) ? jsonElement : element);
    });
  }
}

/** The table expression of {@link unnestRows}, for a statement whose text is built once. */
export class UnnestColumns<K extends string> extends RowArrays<K> {
  /** `unnest($1::uuid[], ...) as v ("id", ...)`, for use in a `from`. */
  readonly sql: string;

  /** @param columns `key` is the property of row objects */
  constructor(columns: readonly Readonly<Record<'key' | 'name' | 'type', string>>[], firstParam = 1) {
    super(columns);
    for (const { name, type } of columns) {
      if (!/^[a-z_][a-z0-9_]*$/.test(name)) throw new RangeError(`'${name}' is no plain column name`);
      if (!/^[a-z][a-z0-9_]*( [a-z]+)*$/.test(type)) throw new RangeError(`'${type}' is no plain type name`);
    }
    const arrays = columns.map(({ type }, index) => `$${firstParam + index}::${type}[]`);
    const names = columns.map(({ name }) => `"${name}"`);
    this.sql = `unnest(${arrays.join(', ')}) as v (${names.join(', ')})`;
  }
}

interface Outcome {
  // oxlint-disable-next-line typescript/no-explicit-any -- the caller declares the shape of rows
  readonly records: any[];
  readonly affected?: number | null | undefined;
}

/** The array literal of one column: several times as fast as the driver's own. */
function arrayLiteral(
  values: readonly (UnnestValue | undefined)[],
  column: string,
  write: (value: UnnestValue) => string,
): string {
  let literal = '{';
  for (const [row, value] of values.entries()) {
    if (value === undefined) throw new TypeError(`row ${row} has no value for column '${column}'`);
    literal += row === 0 ? write(value) : `,${write(value)}`;
  }
  return `${literal}}`;
}

/** @throws RangeError for an invalid Date */
function element(value: UnnestValue): string {
  if (value === null) return 'NULL';
  if (typeof value === 'string') return NEEDS_ESCAPE.test(value) ? escaped(value) : `"${value}"`;
  if (value instanceof Date) return `"${isoOf(value)}"`;
  if (Buffer.isBuffer(value)) return `"\\\\x${value.toString('hex')}"`;
  if (typeof value === 'object') throw new TypeError('an object is the value of a column that is not JSON');
  return String(value);
}

let lastDate = new Date(0);
let lastIso = lastDate.toISOString();

/** Most times of a group are its own: the text of the last one is kept. @throws RangeError for an invalid Date */
function isoOf(date: Date): string {
  if (date === lastDate) return lastIso;
  lastIso = date.toISOString();
  lastDate = date;
  return lastIso;
}

const NEEDS_ESCAPE = /["\\]/;

function escaped(text: string): string {
  return `"${text.replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;
}

/** JSON text has no control characters, so a JSON string escapes it as an array element requires. */
function jsonElement(value: UnnestValue): string {
  if (value === null) return 'NULL';
  return JSON.stringify(typeof value === 'object' ? jsonText(value) : value);
}

function isJson(type: string): boolean {
  return type === 'json' || type === 'jsonb';
}

/** Sends the statement before it awaits anything, so that statements of a pipeline keep their order. */
async function run(executor: SqlExecutor, sql: string, params: readonly unknown[]): Promise<Outcome> {
  if (executor instanceof Client) return runOn(executor, sql, params);
  const place = placeOf(executor);
  if (!('runner' in place)) return runAlone(place.source, sql, params);
  const pipeline = Pipeline.of(place.runner);
  if (!pipeline) return place.runner.query(sql, [...params], true);
  const { rows: records, rowCount } = await pipeline.send(sql, params);
  return { records, affected: rowCount };
}

/** A statement outside of transactions, on a connection of the pool, without TypeORM's overhead. */
async function runAlone(source: DataSource, sql: string, params: readonly unknown[]): Promise<Outcome> {
  const client = await acquireConnection(source);
  try {
    return await runOn(client, sql, params);
  } finally {
    client.release();
  }
}

async function runOn(client: Client, sql: string, params: readonly unknown[]): Promise<Outcome> {
  try {
    const result = await client.query<object>(sql, [...params]);
    return { records: result.rows, affected: result.rowCount };
  } catch (error) {
    throw queryFailed(sql, params, error);
  }
}

/** A connection of the pool, to be released. @throws TypeORM's error when the data source is not open */
async function acquireConnection(source: DataSource): Promise<PoolClient> {
  const pool = poolOf(source);
  if (!pool) throw new TypeORMError('Driver not Connected');
  return pool.connect();
}

/** The connections of a data source; undefined while it is not open. */
export function poolOf({ driver }: DataSource): Pool | undefined {
  const pool: unknown = 'master' in driver ? driver.master : undefined;
  return pool instanceof Pool ? pool : undefined;
}

function placeOf(
  executor: Exclude<SqlExecutor, Client>,
): { readonly runner: QueryRunner } | { readonly source: DataSource } {
  if (!(executor instanceof EntityManager)) {
    return 'isReleased' in executor ? { runner: executor } : { source: executor };
  }
  return executor.queryRunner ? { runner: executor.queryRunner } : { source: executor.dataSource };
}
