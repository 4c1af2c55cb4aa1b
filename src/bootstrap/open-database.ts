import type { DataSource } from 'typeorm';
import { MIGRATIONS } from '../../migrations/all.js';
import { connectDatabase } from '../database/connect.js';
import { checkSessions } from '../database/failover/check-sessions.js';
import type { DatabaseUrlSource } from '../database/failover/database-servers.js';
import type { SchemaClasses } from '../database/data-source.js';
import { readSecret } from '@longshore/common/settings/secret-file';
import { startEmbeddedPostgres } from '@longshore/embedded-postgres';
import { ENTITIES } from '../database/entities/all.js';
import { migrate } from '../database/migrate.js';
import { detectRestore } from '../database/failover/promotion-check.js';
import { builtInStrategies, selectStrategy } from '../claims/strategies/scheduler.js';
import type { Log } from '../common/logging/logger.js';
import { abortable, type CleanupStack } from './cleanup-stack.js';
import type { Configuration } from '../config/settings.module.js';
import type { Settings } from '../config/settings.js';
import { resetPoolOnFirstStart } from '../workers/pool/shared-worker-pool.js';

/** Timeout of the first connection, in milliseconds. */
const CONNECT_TIMEOUT_MS = 30_000;

/** Least max_connections of the embedded PostgreSQL. */
const MIN_CONNECTIONS = 200;

/** Connections that a process may open in addition to its pool. */
const EXTRA_CONNECTIONS = 7;

/** The service, accepting requests. */
export interface RunningService {
  /** Without a trailing slash. */
  readonly url: string;
  /** Finishes requests in progress, closes everything and stops the embedded PostgreSQL. Idempotent. */
  stop(): Promise<void>;
}

export interface StartContext extends Configuration {
  readonly log: Log;
  /** Aborts the start. */
  readonly stop: AbortSignal;
}

/** Refuses an unknown strategy before there is a database; the application looks among those of extensions. @throws SettingsError */
export function checkStrategy(settings: Settings): void {
  if (settings.extensions === undefined) selectStrategy(builtInStrategies(settings), settings.scheduler);
}

const NO_EXTENSIONS: SchemaClasses = { entities: [], migrations: [] };

/**
 * Uses the server of DATABASE_URL, or starts the embedded one.
 * @returns the current URL: the content of DATABASE_URL_FILE may change, that of the embedded server when it is restarted
 */
export async function openDatabaseServer(
  { settings, log }: Pick<StartContext, 'settings' | 'log'>,
  cleanup: CleanupStack,
): Promise<() => string> {
  const { databaseUrl, databaseUrlFile } = settings;
  if (databaseUrlFile !== undefined) {
    return () => readSecret({ DATABASE_URL_FILE: databaseUrlFile }, 'DATABASE_URL') ?? '';
  }
  if (databaseUrl !== undefined) return () => databaseUrl;
  const connections = (settings.workers + 1) * (settings.dbPoolSize + EXTRA_CONNECTIONS);
  const postgres = await startEmbeddedPostgres({
    dataDir: settings.dataDir,
    log: (message, fields) => log.info(message, { ...fields }),
    serverOptions: { max_connections: String(Math.max(MIN_CONNECTIONS, connections)) },
  });
  cleanup.add(() => postgres.stop());
  return () => postgres.url;
}

/**
 * Connects this process, and waits for a server that is starting.
 * @throws DatabaseConnectError, or the reason of `stop`
 */
export async function openDatabase(
  url: DatabaseUrlSource,
  { settings, log, stop }: StartContext,
  cleanup: CleanupStack,
  { entities, migrations }: SchemaClasses = NO_EXTENSIONS,
): Promise<DataSource> {
  const connecting = connectDatabase(
    {
      url,
      // The journal has one more, and one for large requests.
      poolSize: settings.dbPoolSize - 1,
      applicationName: 'longshore',
      entities: [...ENTITIES, ...entities],
      migrations: [...MIGRATIONS, ...migrations],
      onConnectionLost: (error) => log.warn('lost a database connection', { error }),
    },
    {
      timeoutMs: CONNECT_TIMEOUT_MS,
      onRetry: (reason) => log.warn('the database does not answer yet', { reason }),
    },
  );
  const dataSource = await abortable(connecting, stop, (late) => late.destroy());
  cleanup.add(async () => {
    if (dataSource.isInitialized) await dataSource.destroy();
  });
  return dataSource;
}

/**
 * Checks the connections, migrates the database and checks for a restore: once, before the first process listens.
 * @param start its status says for which migration the start waits
 * @throws SettingsError for a connection pooler that does not keep sessions; Error of a migration
 */
export async function prepareDatabase(
  dataSource: DataSource,
  log: Log,
  start: { status: string },
  extensions: SchemaClasses = NO_EXTENSIONS,
): Promise<void> {
  await checkSessions(dataSource);
  // The service's migrations come first: those of extensions may refer to its tables, whatever their timestamps.
  for (const migrations of [MIGRATIONS, extensions.migrations]) {
    if (migrations.length === 0) continue;
    const applied = await migrate(dataSource, {
      migrations,
      onMigration: (name) => {
        start.status = `Starting: waiting for migration ${name}`;
      },
      onWait: () => log.info('another process is migrating the database; waiting for it'),
      onBegin: (pending) => log.info('migrating the database', { pending }),
      onBlocked: (blocked) =>
        log.warn('a migration waits for a lock on a table; trying again', { ...blocked }),
    });
    if (applied.length > 0) log.info('migrated the database', { applied });
  }
  start.status = 'Starting';
  const restored = await detectRestore(dataSource);
  if (restored !== undefined) {
    log.warn('the database was restored, moved or copied: cursors beyond the end of the backup are refused', {
      ...restored,
    });
  }
  if (await resetPoolOnFirstStart(dataSource))
    log.debug('reset the shared worker pool: no other process is serving');
}
