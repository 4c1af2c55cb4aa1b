import { checkScheduler } from './check-scheduler.js';
import { createApp } from './create-app.js';
import { loadExtensions } from './extensions/load-extensions.js';
import { tryAddress } from './listen-address.js';
import { listen } from './listen.js';
import { openDatabase, openDatabaseServer, prepareDatabase, type StartContext } from './open-database.js';
import { openTracing } from '../common/tracing/open-tracing.js';
import { CleanupStack } from './cleanup-stack.js';

/** The service, answering requests. */
export interface RunningService {
  /** Where it answers, without a trailing slash. */
  readonly url: string;
  /** Finishes what is in flight, closes everything, stops the embedded PostgreSQL. A second call changes nothing. */
  stop(): Promise<void>;
}

/**
 * Starts the service in this one process: extensions, database, schema, application, socket. A service that runs is stopped by its
 * `stop()`, no longer by the signal.
 * @throws Error when one of them cannot be had, the reason of the stop when that came first; what had been started is
 * stopped again
 */
export function serve(context: StartContext): Promise<RunningService> {
  const { settings, log, stop } = context;
  const opened = new CleanupStack();
  return opened.orClose(log, async () => {
    const extensions = await loadExtensions(settings);
    checkScheduler(settings, extensions.modules);
    await tryAddress(settings.host, settings.port);
    const tracing = await openTracing(log, opened);
    const databaseUrl = await openDatabaseServer(context, opened);
    stop.throwIfAborted();
    const dataSource = await openDatabase(databaseUrl(), context, opened, extensions);
    await prepareDatabase(dataSource, log, extensions);
    stop.throwIfAborted();
    return extensions.explain(async () => {
      const app = await createApp({ ...context, dataSource, tracing }, extensions.modules);
      opened.add(() => app.close());
      stop.throwIfAborted();
      const url = await listen(app, settings, opened);
      return { url, stop: () => opened.close() };
    });
  });
}
