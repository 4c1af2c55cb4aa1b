import cluster from 'node:cluster';
import { join } from 'node:path';
import type { Extensions } from '../extensions/load-extensions.js';
import { checkScheduler } from '../check-scheduler.js';
import { tryAddress } from '../listen-address.js';
import { openDatabase, openDatabaseServer, prepareDatabase, type StartContext } from '../open-database.js';
import { CleanupStack } from '../cleanup-stack.js';
import type { RunningService } from '../serve.js';
import { abortable } from '../abortable.js';
import { PortKeeper } from './port-keeper.js';
import { ServerProcesses } from './server-processes.js';

/**
 * Starts the service in several processes: this one, the primary, has the database server, the schema and the port, and
 * answers no requests itself; SERVICE_WORKERS others do, and are replaced when they end.
 * @param argv arguments of the service, which the others read again
 * @throws ServerProcessFailed when one of them cannot start, Error when something else cannot be had, the reason of the
 * stop when that came first; what had been started is stopped again
 */
export function serveCluster(context: StartContext, argv: readonly string[]): Promise<RunningService> {
  const { settings, log, stop } = context;
  const opened = new CleanupStack();
  return opened.orClose(log, async () => {
    const { host } = settings;
    const extensions = await extensionsOf(context);
    checkScheduler(settings, extensions?.modules ?? []);
    await tryAddress(host, settings.port);
    const databaseUrl = await openDatabaseServer(context, opened);
    stop.throwIfAborted();
    await prepare(databaseUrl(), context, extensions);
    stop.throwIfAborted();
    const keeper = new PortKeeper(host, settings.port);
    opened.add(() => keeper.release());
    // A port that was chosen by the system could be given away before the first process listens.
    const port = settings.port === 0 ? await keeper.hold() : settings.port;
    cluster.schedulingPolicy = cluster.SCHED_RR;
    cluster.setupPrimary({
      exec: join(import.meta.dirname, '..', '..', 'main.js'),
      args: [...argv],
      // JSON would turn counts that are no numbers into null.
      serialization: 'advanced',
    });
    const processes = new ServerProcesses({ count: settings.workers, port, keeper, databaseUrl, log });
    opened.add(() => processes.stop());
    const url = await abortable(processes.start(), stop);
    return { url, stop: () => opened.close() };
  });
}

/** Loads what is needed to read extensions, which is most of the program, only if there are any. */
async function extensionsOf({ settings }: StartContext): Promise<Extensions | undefined> {
  if (settings.extensions === undefined) return undefined;
  return (await import('../extensions/load-extensions.js')).loadExtensions(settings);
}

async function prepare(
  url: string,
  context: StartContext,
  extensions: Extensions | undefined,
): Promise<void> {
  const opened = new CleanupStack();
  try {
    const dataSource = await openDatabase(url, context, opened, extensions);
    await prepareDatabase(dataSource, context.log, extensions);
  } finally {
    await opened.close();
  }
}
