import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { MIGRATIONS_TABLE, type MigrationClass } from './data-source.js';
import { readOptions, type PostgresOptions, OriginGate } from './failover/connection-options.js';
import { SESSION } from './failover/session-settings.js';
import { rows } from './sql/sql.js';
import { isRetryable, isStatementGivenUp } from './failover/unavailable.js';
import { MigrationFailed, type MigrationPlace } from './migration-failed.js';

/** Advisory lock of the migrating process. */
const MIGRATION_LOCK = '7161023518446744';

const OLDEST_SERVER = 140_000;

const POLL_MS = 100;

/** Polls of the lock after which the migration that another process executes is read again. */
const POLLS_PER_REPORT = 10;

const DEFAULT_TIMEOUT_MS = 600_000;

/**
 * Lock timeout of a migration, in milliseconds. Statements of serving processes queue behind it: it is shorter than
 * their own lock timeout, so that none of them fails.
 */
const TABLE_LOCK_MS = 1_000;

/** Pause before a blocked migration is retried, in milliseconds. */
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 5_000;

export interface MigrateOptions {
  /** Default: those of the data source. */
  readonly migrations?: readonly MigrationClass[];
  /** Timeout of the wait for the migration lock, and of the retries of a migration, in milliseconds. Default 10 minutes. */
  readonly timeoutMs?: number;
  /** Called with the name of each migration that is executed, here or by the process that this one waits for. */
  readonly onMigration?: (name: string) => void;
  /** Called once when another process is migrating. */
  readonly onWait?: () => void;
  /** Called before the first migration with all names. */
  readonly onBegin?: (pending: readonly string[]) => void;
  /** Called before each retry of a migration that could not lock a table. */
  readonly onBlocked?: (blocked: BlockedMigration) => void;
}

export interface BlockedMigration {
  readonly migration: string;
  /** The longest open transaction with a lock on one of the tables: most likely the cause. */
  readonly oldest: OpenTransaction | undefined;
}

export interface OpenTransaction {
  readonly pid: number;
  /** Null, like `seconds`, for a session that this role may not see. */
  readonly application: string | null;
  readonly seconds: number | null;
}

/**
 * Runs the pending migrations on two connections of its own, without a statement timeout. Several processes may call this
 * at once: one migrates, the others wait for it.
 *
 * Other processes may serve meanwhile. Their statements queue behind a migration that waits for a lock on a table, so it
 * gives up after a second and is retried. One that runs without a transaction cannot be retried like that: it sets its
 * own `lock_timeout`.
 * @returns the names of the applied migrations
 * @throws MigrationFailed; Error for a server older than PostgreSQL 14, or after the timeout of the migration lock
 */
export async function migrate(dataSource: DataSource, options: MigrateOptions = {}): Promise<string[]> {
  const source = new DataSource({
    ...withoutTimeouts(readOptions(dataSource)),
    entities: [],
    ...(options.migrations && { migrations: [...options.migrations] }),
    poolSize: 2,
  });
  await source.initialize();
  try {
    const place = await findPlace(source);
    return await underMigrationLock(source, options, () => runPending(source, options, place));
  } finally {
    await source.destroy();
  }
}

/** Options for migrations: no timeout but a short one for locks. */
export function withoutTimeouts(options: PostgresOptions): PostgresOptions {
  return {
    ...options,
    extra: {
      ...options.extra,
      query_timeout: 0,
      originGate: new OriginGate(),
      session: {
        ...SESSION,
        statement_timeout: 0,
        lock_timeout: TABLE_LOCK_MS,
        idle_in_transaction_session_timeout: 0,
      },
    },
  };
}

/** @param number `server_version_num` @param version `server_version` @throws Error for a server that is too old */
export function requireSupportedServer(number: number, version: string): void {
  if (number >= OLDEST_SERVER) return;
  throw new Error(`PostgreSQL 14 or newer is needed; the database server runs ${version}`);
}

async function findPlace(source: DataSource): Promise<MigrationPlace> {
  const [place] = await rows<MigrationPlace>(
    source,
    `select current_setting('server_version_num')::integer as number, current_setting('server_version') as version,
            current_database() as database, current_user as role, current_schema() as schema`,
  );
  if (place === undefined) throw new Error('the server does not say which it is');
  requireSupportedServer(place.number, place.version);
  return place;
}

async function runPending(
  source: DataSource,
  options: MigrateOptions,
  place: MigrationPlace,
): Promise<string[]> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, onBegin, onBlocked } = options;
  const deadline = Date.now() + timeoutMs;
  const pending = await findPending(source);
  const [first] = pending;
  if (first === undefined) return [];
  onBegin?.(pending);
  const isFirstStart = pending.length === source.migrations.length && !(await hasMigrationsTable(source));
  let migration = first;
  for (const each of source.migrations) {
    announce(each, (name) => {
      migration = name;
      options.onMigration?.(name);
    });
  }
  for (let pause = FIRST_RETRY_MS; ; pause = Math.min(pause * 2, LONGEST_RETRY_MS)) {
    try {
      await source.runMigrations({ transaction: 'each' });
      return pending;
    } catch (error) {
      if (!(isStatementGivenUp(error) || isRetryable(error)) || Date.now() + pause > deadline) {
        if (isFirstStart && migration === first) await removeMigrationsTable(source);
        throw new MigrationFailed(migration, error, place);
      }
      onBlocked?.({ migration, oldest: await findOldestTransaction(source) });
      await sleep(pause);
    }
  }
}

/** Reports the name of a migration whenever it is executed. TypeORM has no hook for it. */
function announce(migration: MigrationInterface, onMigration: (name: string) => void): void {
  const up = migration.up.bind(migration);
  migration.up = (runner) => {
    onMigration(nameOf(migration));
    return up(runner);
  };
}

function nameOf({ name, constructor }: MigrationInterface): string {
  return name ?? constructor.name;
}

/** Names of the pending migrations, in order. */
async function findPending(source: DataSource): Promise<string[]> {
  const names = source.migrations.map(nameOf);
  if (!(await hasMigrationsTable(source))) return names;
  const run = await rows<{ name: string }>(source, `select name from ${MIGRATIONS_TABLE}`);
  const known = new Set(run.map(({ name }) => name));
  return names.filter((name) => !known.has(name));
}

/** Whether the schema in which tables are created has it; one of another schema of the search path is another program's. */
async function hasMigrationsTable(source: DataSource): Promise<boolean> {
  const found = await rows(
    source,
    `select 1
       from pg_class
      where relnamespace = (select oid from pg_namespace where nspname = current_schema())
        and relname = $1`,
    [MIGRATIONS_TABLE],
  );
  return found.length > 0;
}

/** Leaves nothing behind in a schema that turned out to belong to somebody else. TypeORM creates the table apart from the first migration. */
async function removeMigrationsTable(source: DataSource): Promise<void> {
  // The error of the migration is the one to report; an empty table of ours harms nobody.
  await rows(source, `drop table if exists ${MIGRATIONS_TABLE}`).catch(() => undefined);
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
                 and c.relnamespace = (select oid from pg_namespace where nspname = current_schema())
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
    await lock(source, holder, options);
    try {
      return await action();
    } finally {
      // An error here must not hide that of the action; the lock ends with the connection anyway.
      await rows(holder, 'select pg_advisory_unlock($1::bigint)', [MIGRATION_LOCK]).catch(() => undefined);
    }
  } finally {
    await holder.release();
  }
}

/**
 * Polls instead of waiting in the server: a waiting statement holds a snapshot, for which a `create index concurrently` of
 * the lock's holder would wait for ever.
 */
async function lock(
  source: DataSource,
  holder: QueryRunner,
  { timeoutMs = DEFAULT_TIMEOUT_MS, onWait, onMigration }: MigrateOptions,
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
    if (onMigration && attempt % POLLS_PER_REPORT === 0) {
      const [name] = await findPending(source);
      if (name !== undefined) onMigration(name);
    }
    if (Date.now() >= deadline) {
      throw new Error(`another process has been migrating the database for more than ${timeoutMs / 1000} s`);
    }
    await sleep(POLL_MS);
  }
}
