import type { DataSource } from 'typeorm';
import { MIGRATIONS } from '../../migrations/all.js';
import { connectDatabase } from '../database/connect.js';
import type { SchemaClasses } from '../database/data-source.js';
import { startEmbeddedPostgres } from '@longshore/embedded-postgres/embedded-postgres';
import { ENTITIES } from '../database/entities/all.js';
import { migrate } from '../database/migrate.js';
import { detectRestore } from '../feed/detect-restore.js';
import type { Log } from '../common/logging/logger.js';
import type { CleanupStack } from './cleanup-stack.js';
import type { Configuration } from '../config/settings.module.js';
import { abortable } from './abortable.js';
import { resetPoolOnFirstStart } from '../workers/pool/shared-worker-pool.js';

/** How long a start waits for a database that is not there yet. */
const DATABASE_PATIENCE_MS = 30_000;

/** Connections that the embedded PostgreSQL always takes, and those that a process may open beside its pool. */
const USUAL_CONNECTIONS = 200;
const BESIDE_THE_POOL = 6;

/** The inputs of a start. */
export interface StartContext extends Configuration {
  readonly log: Log;
  /** Gives the start up when it aborts. */
  readonly stop: AbortSignal;
}

const NO_EXTENSIONS: SchemaClasses = { entities: [], migrations: [] };

/**
 * The server of DATABASE_URL, or the embedded one, which is started for that.
 * @returns tells the URL; that of the embedded server may change when the server has to be started again
 * @throws Error when the embedded one cannot be started
 */
export async function openDatabaseServer(
  { settings, log }: Pick<StartContext, 'settings' | 'log'>,
  opened: CleanupStack,
): Promise<() => string> {
  const { databaseUrl } = settings;
  if (databaseUrl !== undefined) return () => databaseUrl;
  const connections = (settings.workers + 1) * (settings.dbPoolSize + BESIDE_THE_POOL);
  const postgres = await startEmbeddedPostgres({
    dataDir: settings.dataDir,
    log: (message, fields) => log.info(message, { ...fields }),
    serverOptions: { max_connections: String(Math.max(USUAL_CONNECTIONS, connections)) },
  });
  opened.add(() => postgres.stop());
  return () => postgres.url;
}

/**
 * Connects this process, waiting for a server that is not there yet.
 * @throws DatabaseConnectError, or the reason of `stop` when that came first
 */
export async function openDatabase(
  url: string,
  { settings, log, stop }: StartContext,
  opened: CleanupStack,
  { entities, migrations }: SchemaClasses = NO_EXTENSIONS,
): Promise<DataSource> {
  const connecting = connectDatabase(
    {
      url,
      // One more is the journal's own.
      poolSize: settings.dbPoolSize - 1,
      applicationName: 'longshore',
      entities: [...ENTITIES, ...entities],
      migrations: [...MIGRATIONS, ...migrations],
      onConnectionLost: (error) => log.warn('lost a database connection', { error }),
    },
    {
      deadlineMs: DATABASE_PATIENCE_MS,
      onRetry: (reason) => log.warn('the database does not answer yet', { reason }),
    },
  );
  const dataSource = await abortable(connecting, stop, (late) => late.destroy());
  opened.add(async () => {
    if (dataSource.isInitialized) await dataSource.destroy();
  });
  return dataSource;
}

/**
 * Brings the database to the state that every process of this service expects: once for all of them, before the first
 * one answers.
 * @throws Error when a migration fails
 */
export async function prepareDatabase(
  dataSource: DataSource,
  log: Log,
  extensions: SchemaClasses = NO_EXTENSIONS,
): Promise<void> {
  // The service's migrations come first: an extension's may refer to any of its tables, whatever their timestamps.
  for (const migrations of [MIGRATIONS, extensions.migrations]) {
    if (migrations.length === 0) continue;
    const applied = await migrate(dataSource, {
      migrations,
      onWait: () => log.info('another process is migrating the database; waiting for it'),
      onBegin: (pending) => log.info('migrating the database', { pending }),
      onBlocked: (blocked) =>
        log.warn('a migration waits for a lock on a table; trying again', { ...blocked }),
    });
    if (applied.length > 0) log.info('migrated the database', { applied });
  }
  const restored = await detectRestore(dataSource);
  if (restored !== undefined) {
    log.warn('the database was restored, moved or copied: cursors behind the end of the backup are refused', {
      ...restored,
    });
  }
  if (await resetPoolOnFirstStart(dataSource))
    log.debug('no other process serves: the shared pool of workers is empty');
}
