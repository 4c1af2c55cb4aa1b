import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import type { DataSourceOptions, QueryRunner } from 'typeorm';
import type { MigrationClass } from './data-source.js';
import { rows } from './sql.js';
import { isRetryable, isStatementGivenUp } from './unavailable.js';

/** Key of the advisory lock that a migrating process holds; any number nobody else uses. */
const MIGRATION_LOCK = '7161023518446744';

const OLDEST_SERVER = 140_000;
const POLL_MS = 100;
const USUAL_DEADLINE_MS = 600_000;

/**
 * Longest wait of a migration for a lock on a table, in milliseconds. Who serves meanwhile waits behind a migration that
 * waits: this is less than the longest wait for a lock of the service's own statements, so none of them fails for it.
 */
const TABLE_LOCK_MS = 1_000;

/** Pause before a migration that did not get its locks is tried again, in milliseconds; others go on meanwhile. */
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 5_000;

export interface MigrateOptions {
  /** Those to run. Default: all of the data source. */
  readonly migrations?: readonly MigrationClass[];
  /**
   * How long another process may hold the migration lock, and how long a migration may be tried for the locks it needs on
   * tables, before this one gives up; in milliseconds. Default 10 minutes.
   */
  readonly timeoutMs?: number;
  /** Called once when another process is migrating and this one waits for it. */
  readonly onWait?: () => void;
  /** Called before the first migration is run, with the names of all that are to be run. */
  readonly onBegin?: (pending: readonly string[]) => void;
  /** Called each time a migration did not get a lock that somebody else holds, before it is tried again. */
  readonly onBlocked?: (blocked: BlockedMigration) => void;
}

/** A migration that could not have the locks it needs. */
export interface BlockedMigration {
  readonly migration: string;
  /** The longest transaction that held a lock on one of the tables at the time: most likely it is in the way. */
  readonly oldest: OpenTransaction | undefined;
}

/** A transaction of another session of the database. */
export interface OpenTransaction {
  readonly pid: number;
  /** Null for a session of a role that this one may not look at. */
  readonly application: string | null;
  /** How long it had been open; null as above. */
  readonly seconds: number | null;
}

/** A migration failed. The schema is what the migrations before it made. */
export class MigrationFailed extends Error {
  override readonly name = 'MigrationFailed';

  constructor(migration: string, reason: unknown) {
    const text = reason instanceof Error ? reason.message : String(reason);
    super(`migration ${migration} failed, the schema is as it was before it: ${text}`, { cause: reason });
  }
}

/**
 * Brings the database to the data source's last migration, and answers the names of those it ran. Several
 * processes may call this at once: one migrates, the others wait and find nothing left to do. Uses two
 * connections of its own, without limits on the duration of statements.
 *
 * Other processes serve meanwhile, also those of an earlier version. A migration that waits for a lock on a table has
 * everybody else wait for that table: it gives up after a second, lets them go on, and is tried again. One that runs
 * without a transaction cannot be tried again like that: it sets its own `lock_timeout`.
 * @throws Error when the server is older than PostgreSQL 14, or when the migration lock was not to be had in time;
 * MigrationFailed when a migration fails (those before it stay)
 */
export async function migrate(dataSource: DataSource, options: MigrateOptions = {}): Promise<string[]> {
  const source = new DataSource({
    ...withoutTimeouts(dataSource.options),
    entities: [],
    ...(options.migrations && { migrations: [...options.migrations] }),
    poolSize: 2,
  });
  await source.initialize();
  try {
    await checkServerVersion(source);
    return await underMigrationLock(source, options, () => runPending(source, options));
  } finally {
    await source.destroy();
  }
}

/** Options for migrations: a statement may take any time, a lock on a table is waited for only briefly. */
export function withoutTimeouts(
  options: DataSourceOptions,
): Extract<DataSourceOptions, { type: 'postgres' }> {
  if (options.type !== 'postgres') throw new TypeError(`cannot migrate a database of type ${options.type}`);
  return {
    ...options,
    extra: {
      ...options.extra,
      statement_timeout: 0,
      lock_timeout: TABLE_LOCK_MS,
      query_timeout: 0,
      idle_in_transaction_session_timeout: 0,
    },
  };
}

/** @throws Error when a server of this version (as `server_version_num` and `server_version` tell it) is too old. */
export function requireSupportedServer(number: number, version: string): void {
  if (number >= OLDEST_SERVER) return;
  throw new Error(`PostgreSQL 14 or newer is needed; the database server runs ${version}`);
}

async function checkServerVersion(source: DataSource): Promise<void> {
  const [server] = await rows<{ number: number; version: string }>(
    source,
    `select current_setting('server_version_num')::integer as number, current_setting('server_version') as version`,
  );
  requireSupportedServer(server?.number ?? 0, server?.version ?? 'an unknown version');
}

async function runPending(source: DataSource, options: MigrateOptions): Promise<string[]> {
  const { timeoutMs = USUAL_DEADLINE_MS, onBegin, onBlocked } = options;
  const deadline = Date.now() + timeoutMs;
  const pending = await findPending(source);
  if (pending.length === 0) return [];
  onBegin?.(pending);
  for (let pause = FIRST_RETRY_MS; ; pause = Math.min(pause * 2, LONGEST_RETRY_MS)) {
    try {
      await source.runMigrations({ transaction: 'each' });
      return pending;
    } catch (error) {
      const [migration = 'unknown'] = await findPending(source);
      if (!(isStatementGivenUp(error) || isRetryable(error)) || Date.now() + pause > deadline) {
        throw new MigrationFailed(migration, error);
      }
      onBlocked?.({ migration, oldest: await findOldestTransaction(source) });
      await sleep(pause);
    }
  }
}

/** Names of the migrations that the database has not had, in their order. */
async function findPending(source: DataSource): Promise<string[]> {
  const names = source.migrations.map(({ name, constructor }) => name ?? constructor.name);
  const [table] = await rows<{ exists: boolean }>(
    source,
    `select to_regclass('migrations') is not null as exists`,
  );
  if (table?.exists !== true) return names;
  const run = await rows<{ name: string }>(source, 'select name from migrations');
  const known = new Set(run.map(({ name }) => name));
  return names.filter((name) => !known.has(name));
}

async function findOldestTransaction(source: DataSource): Promise<OpenTransaction | undefined> {
  const [oldest] = await rows<OpenTransaction>(
    source,
    `select l.pid, a.application_name as application,
            extract(epoch from clock_timestamp() - a.xact_start)::integer as seconds
       from (
              select distinct k.pid
                from pg_locks k
                join pg_class c on c.oid = k.relation
                join pg_database d on d.oid = k.database
               where d.datname = current_database()
                 and c.relnamespace = (select relnamespace from pg_class where oid = to_regclass('migrations'))
                 and k.granted
                 and k.pid <> pg_backend_pid()
            ) l
       left join pg_stat_activity a using (pid)
      order by a.xact_start nulls first
      limit 1`,
  );
  return oldest;
}

/**
 * Runs an action that changes the schema while no other process does. Needs two connections.
 * @throws Error when the lock was not available in time, or the error of the action
 */
export async function underMigrationLock<T>(
  source: DataSource,
  options: MigrateOptions,
  action: () => Promise<T>,
): Promise<T> {
  const holder = source.createQueryRunner();
  try {
    await lock(holder, options);
    try {
      return await action();
    } finally {
      // The lock goes with the connection anyway: losing it here must not hide what the action threw.
      await rows(holder, 'select pg_advisory_unlock($1::bigint)', [MIGRATION_LOCK]).catch(() => undefined);
    }
  } finally {
    await holder.release();
  }
}

/**
 * Asks again and again instead of waiting in the server: a statement that waits holds a snapshot, and a
 * `create index concurrently` of the process that has the lock would wait for that snapshot for ever.
 */
async function lock(
  holder: QueryRunner,
  { timeoutMs = USUAL_DEADLINE_MS, onWait }: MigrateOptions,
): Promise<void> {
  const deadline = Date.now() + timeoutMs;
  for (let attempt = 0; ; attempt += 1) {
    const [answer] = await rows<{ taken: boolean }>(
      holder,
      'select pg_try_advisory_lock($1::bigint) as taken',
      [MIGRATION_LOCK],
    );
    if (answer?.taken === true) return;
    if (attempt === 0) onWait?.();
    if (Date.now() >= deadline) {
      throw new Error(`another process has been migrating the database for more than ${timeoutMs / 1000} s`);
    }
    await sleep(POLL_MS);
  }
}
