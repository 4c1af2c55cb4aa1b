import type { AddressInfo } from 'node:net';
import type { NestExpressApplication } from '@nestjs/platform-express';
import type { DataSource } from 'typeorm';
import { MIGRATIONS } from '../migrations/all.js';
import { createApp } from './create-app.js';
import { connectDatabase } from './database/connect.js';
import {
  startEmbeddedPostgres,
  type EmbeddedPostgres,
} from './database/embedded-postgres/embedded-postgres.js';
import { ENTITIES } from './database/entities/all.js';
import { migrate } from './database/migrate.js';
import { Drain } from './http/drain.js';
import type { Log } from './logging/logger.js';
import { RunJournal } from './runs/run-journal/run-journal.js';
import type { Settings } from './settings/settings.js';

/** How long the service waits at start for a database that is not there yet. */
const DATABASE_PATIENCE_MS = 30_000;

/** The service, answering requests. */
export interface RunningService {
  /** Where it answers, without a trailing slash. */
  readonly url: string;
  /** Finishes what is in flight, closes everything, stops the embedded PostgreSQL. A second call changes nothing. */
  stop(): Promise<void>;
}

/**
 * Starts the service: database, schema, application, socket.
 * @throws Error when one of them cannot be had; what had been started is stopped again
 */
export async function serve(settings: Settings, log: Log): Promise<RunningService> {
  const opened: (() => Promise<void>)[] = [];
  const closeAll = async (): Promise<void> => {
    for (const close of opened.splice(0).toReversed()) await close();
  };
  try {
    const url = settings.databaseUrl ?? (await openEmbedded(settings, log, opened));
    const dataSource = await openDatabase(url, settings, log, opened);
    const app = await createApp({ settings, log, dataSource });
    opened.push(() => app.close());
    await app.listen(settings.port, settings.host);
    opened.push(() => finishRequests(app));
    const address = urlOf(app);
    log.info(`listening on ${address}`);
    let stopped: Promise<void> | undefined;
    return { url: address, stop: () => (stopped ??= closeAll()) };
  } catch (error) {
    await closeAll();
    throw error;
  }
}

async function openEmbedded(settings: Settings, log: Log, opened: (() => Promise<void>)[]): Promise<string> {
  const postgres: EmbeddedPostgres = await startEmbeddedPostgres({
    dataDir: settings.dataDir,
    log: (message, fields) => log.info(message, { ...fields }),
  });
  opened.push(() => postgres.stop());
  return postgres.url;
}

async function openDatabase(
  url: string,
  settings: Settings,
  log: Log,
  opened: (() => Promise<void>)[],
): Promise<DataSource> {
  const dataSource = await connectDatabase(
    {
      url,
      poolSize: settings.dbPoolSize,
      applicationName: 'longshore',
      entities: ENTITIES,
      migrations: MIGRATIONS,
      onConnectionLost: (error) => log.warn('lost a database connection', { error }),
    },
    {
      deadlineMs: DATABASE_PATIENCE_MS,
      onRetry: (reason) => log.warn('the database does not answer yet', { reason }),
    },
  );
  opened.push(async () => {
    if (dataSource.isInitialized) await dataSource.destroy();
  });
  const applied = await migrate(dataSource, {
    onWait: () => log.info('another process is migrating the database; waiting for it'),
  });
  if (applied.length > 0) log.info('migrated the database', { applied });
  return dataSource;
}

async function finishRequests(app: NestExpressApplication): Promise<void> {
  await app.get(Drain).begin();
  await app.get(RunJournal).idle();
}

function urlOf(app: NestExpressApplication): string {
  const address: AddressInfo | string | null = app.getHttpServer().address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}
