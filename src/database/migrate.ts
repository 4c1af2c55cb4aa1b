import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import type { MigrationClass } from './data-source.js';
import { readOptions, type PostgresOptions, OriginGate } from './failover/connection-options.js';
import { rows } from './sql/sql.js';
import { isRetryable, isStatementGivenUp } from './failover/unavailable.js';
import { errorText } from '@longshore/common/errors';

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

/** A migration failed; those before it are applied. */
class MigrationFailed extends Error {
  override readonly name = 'MigrationFailed';

  constructor(migration: string, reason: unknown) {
    const text = errorText(reason);
    super(`migration ${migration} failed, the schema is as it was before it: ${text}`, { cause: reason });
  }
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
    await checkServerVersion(source);
    return await underMigrationLock(source, options, () => runPending(source, options));
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
      session: { statement_timeout: 0, lock_timeout: TABLE_LOCK_MS, idle_in_transaction_session_timeout: 0 },
    },
  };
}

/** @param number `server_version_num` @param version `server_version` @throws Error for a server that is too old */
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
  const { timeoutMs = DEFAULT_TIMEOUT_MS, onBegin, onBlocked } = options;
  const deadline = Date.now() + timeoutMs;
  const pending = await findPending(source);
  if (pending.length === 0) return [];
  onBegin?.(pending);
  for (const migration of source.migrations) announce(migration, options.onMigration);
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

/** Reports the name of a migration whenever it is executed. TypeORM has no hook for it. */
function announce(migration: MigrationInterface, onMigration: MigrateOptions['onMigration']): void {
  const up = migration.up.bind(migration);
  migration.up = (runner) => {
    onMigration?.(nameOf(migration));
    return up(runner);
  };
}

function nameOf({ name, constructor }: MigrationInterface): string {
  return name ?? constructor.name;
}

/** Names of the pending migrations, in order. */
async function findPending(source: DataSource): Promise<string[]> {
  const names = source.migrations.map(nameOf);
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
