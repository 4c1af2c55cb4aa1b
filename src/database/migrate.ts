import { setTimeout as sleep } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import type { QueryRunner } from 'typeorm';
import { rows } from './sql.js';

/** Key of the advisory lock that a migrating process holds; any number nobody else uses. */
const MIGRATION_LOCK = '7161023518446744';

const OLDEST_SERVER = 140_000;
const POLL_MS = 100;

export interface MigrateOptions {
  /** How long another process may hold the migration lock before this one gives up, in milliseconds. Default 10 minutes. */
  readonly deadlineMs?: number;
  /** Called once when another process is migrating and this one waits for it. */
  readonly onWait?: () => void;
}

/**
 * Brings the database to the data source's last migration, and answers the names of those it ran. Several
 * processes may call this at once: one migrates, the others wait and find nothing left to do. Uses two
 * connections of its own, without limits on the duration of statements.
 * @throws Error when the server is older than PostgreSQL 14, when a migration fails (those before it stay), or when
 * the lock was not to be had in time.
 */
export async function migrate(dataSource: DataSource, options: MigrateOptions = {}): Promise<string[]> {
  const { options: base } = dataSource;
  if (base.type !== 'postgres') throw new TypeError(`cannot migrate a database of type ${base.type}`);
  const source = new DataSource({
    ...base,
    entities: [],
    poolSize: 2,
    extra: {
      ...base.extra,
      statement_timeout: 0,
      lock_timeout: 0,
      query_timeout: 0,
      idle_in_transaction_session_timeout: 0,
    },
  });
  await source.initialize();
  try {
    await checkServerVersion(source);
    return await underLock(source, options, async () => {
      const applied = await source.runMigrations({ transaction: 'each' });
      return applied.map((migration) => migration.name);
    });
  } finally {
    await source.destroy();
  }
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

async function underLock<T>(
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
async function lock(holder: QueryRunner, { deadlineMs = 600_000, onWait }: MigrateOptions): Promise<void> {
  const deadline = Date.now() + deadlineMs;
  for (let attempt = 0; ; attempt += 1) {
    const [answer] = await rows<{ taken: boolean }>(
      holder,
      'select pg_try_advisory_lock($1::bigint) as taken',
      [MIGRATION_LOCK],
    );
    if (answer?.taken === true) return;
    if (attempt === 0) onWait?.();
    if (Date.now() >= deadline) {
      throw new Error(`another process has been migrating the database for more than ${deadlineMs / 1000} s`);
    }
    await sleep(POLL_MS);
  }
}
