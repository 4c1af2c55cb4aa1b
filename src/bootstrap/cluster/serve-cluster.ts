import cluster from 'node:cluster';
import { join } from 'node:path';
import { abortable, CleanupStack } from '../cleanup-stack.js';
import type { DatabaseUrlSource } from '../../database/failover/database-servers.js';
import type { Extensions } from '../extensions/load-extensions.js';
import {
  checkStrategy,
  openDatabase,
  openDatabaseServer,
  prepareDatabase,
  type RunningService,
  type StartContext,
} from '../open-database.js';
import { PortReservation } from '../port-reservation.js';
import { ServerProcesses } from './server-processes.js';

/**
 * Starts the service in several processes. This process, the primary, runs the database server, migrates the schema and
 * holds the port. SERVICE_WORKERS server processes accept requests and are replaced when they end.
 * @param argv arguments of the service, which the server processes read again
 * @throws ServerProcessFailed when one of them cannot start, the Error of another step, or the reason of `context.stop`;
 * everything is closed again
 */
export function serveCluster(context: StartContext, argv: readonly string[]): Promise<RunningService> {
  const { settings, log, stop } = context;
  const cleanup = new CleanupStack();
  return cleanup.orClose(log, async () => {
    const { host } = settings;
    checkStrategy(settings);
    const extensions = await importExtensions(context);
    if (extensions !== undefined) log.info('loaded extensions', { extensions: extensions.summary });
    const reservation = new PortReservation(host, settings.port);
    cleanup.add(() => reservation.release());
    const port = await reservation.hold();
    const databaseUrl = await openDatabaseServer(context, cleanup);
    stop.throwIfAborted();
    await prepare(databaseUrl, context, reservation, extensions);
    stop.throwIfAborted();
    cluster.schedulingPolicy = cluster.SCHED_RR;
    cluster.setupPrimary({
      exec: join(import.meta.dirname, '..', '..', 'main.js'),
      args: [...argv],
      // JSON would turn NaN and Infinity into null.
      serialization: 'advanced',
    });
    // They read the file themselves.
    const environment = (): Record<string, string> =>
      settings.databaseUrlFile === undefined ? { DATABASE_URL: databaseUrl() } : {};
    const processes = new ServerProcesses({ count: settings.workers, port, reservation, environment, log });
    cleanup.add(() => processes.stop());
    const url = await abortable(processes.start(), stop);
    return { url, stop: () => cleanup.close() };
  });
}

/** Imports the extension loader, and with it most of the program, only when there are extensions. */
async function importExtensions({ settings }: StartContext): Promise<Extensions | undefined> {
  if (settings.extensions === undefined) return undefined;
  return (await import('../extensions/load-extensions.js')).loadExtensions(settings);
}

async function prepare(
  url: DatabaseUrlSource,
  context: StartContext,
  reservation: PortReservation,
  extensions?: Extensions,
): Promise<void> {
  const cleanup = new CleanupStack();
  try {
    const dataSource = await openDatabase(url, context, cleanup, extensions);
    await prepareDatabase(dataSource, context.log, reservation, extensions);
  } finally {
    await cleanup.close();
  }
}
