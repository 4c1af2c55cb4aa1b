import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
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
import { AddressUnusable, tryAddress } from './listen-address.js';
import type { Log } from './logging/logger.js';
import { RunJournal } from './runs/run-journal/run-journal.js';
import type { Settings } from './settings/settings.js';

/** How long finishing may take altogether, in milliseconds: the drain's limit and a moment for the last commit. */
const STOP_PATIENCE_MS = 11_000;

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
 * @param stop gives the start up when it aborts; a service that runs is stopped by its `stop()`
 * @throws Error when one of them cannot be had, the reason of `stop` when that came first; what had been started is
 * stopped again
 */
export async function serve(settings: Settings, log: Log, stop: AbortSignal): Promise<RunningService> {
  const opened: (() => Promise<void>)[] = [];
  try {
    await tryAddress(settings.host, settings.port);
    const url = settings.databaseUrl ?? (await openEmbedded(settings, log, opened));
    stop.throwIfAborted();
    const dataSource = await openDatabase(url, { settings, log, stop }, opened);
    stop.throwIfAborted();
    const app = await createApp({ settings, log, dataSource });
    opened.push(() => app.close());
    stop.throwIfAborted();
    await listen(app, settings);
    opened.push(() => finishRequests(app));
    let stopped: Promise<void> | undefined;
    return { url: urlOf(app), stop: () => (stopped ??= closeAll(opened)) };
  } catch (error) {
    await closeAll(opened).catch((problem: unknown) => {
      log.error('could not clean up after a failed start', { error: problem });
    });
    throw error;
  }
}

/** Closes what was opened last first, all of it even if one part cannot be closed. @throws the first problem */
async function closeAll(opened: (() => Promise<void>)[]): Promise<void> {
  const problems: unknown[] = [];
  for (const close of opened.splice(0).toReversed()) {
    try {
      await close();
    } catch (error) {
      problems.push(error);
    }
  }
  if (problems.length > 0) throw problems[0];
}

async function listen(app: NestExpressApplication, { host, port }: Settings): Promise<void> {
  try {
    await app.listen(port, host);
  } catch (error) {
    throw new AddressUnusable(host, port, error);
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
  { settings, log, stop }: { settings: Settings; log: Log; stop: AbortSignal },
  opened: (() => Promise<void>)[],
): Promise<DataSource> {
  const connecting = connectDatabase(
    {
      url,
      // One more is the journal's own.
      poolSize: Math.max(1, settings.dbPoolSize - 1),
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
  const dataSource = await unlessStopped(connecting, stop, (late) => late.destroy());
  opened.push(async () => {
    if (dataSource.isInitialized) await dataSource.destroy();
  });
  const applied = await migrate(dataSource, {
    onWait: () => log.info('another process is migrating the database; waiting for it'),
  });
  if (applied.length > 0) log.info('migrated the database', { applied });
  return dataSource;
}

/** @throws the reason of `stop` when that aborts first; what the work brings later goes to `discard` */
async function unlessStopped<T>(
  work: Promise<T>,
  stop: AbortSignal,
  discard: (late: T) => Promise<void>,
): Promise<T> {
  let onAbort: (() => void) | undefined;
  const stopped = new Promise<never>((_resolve, reject) => {
    onAbort = () => {
      work.then(discard).catch(() => undefined);
      reject(stop.reason instanceof Error ? stop.reason : new Error('the start was given up'));
    };
    stop.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([work, stopped]);
  } finally {
    if (onAbort) stop.removeEventListener('abort', onAbort);
  }
}

async function finishRequests(app: NestExpressApplication): Promise<void> {
  const limit = sleep(STOP_PATIENCE_MS, undefined, { ref: false });
  await app.get(Drain).begin();
  // Requests that are cut off may leave commands behind whose database does not answer.
  await Promise.race([app.get(RunJournal).idle(), limit]);
}

function urlOf(app: NestExpressApplication): string {
  const address: AddressInfo | string | null = app.getHttpServer().address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}
