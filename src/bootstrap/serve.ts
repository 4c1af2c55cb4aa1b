import { Registry } from 'prom-client';
import { MetricsPage } from '../common/metrics/metrics-page.js';
import { openTracing } from '../common/tracing/open-tracing.js';
import { checkScheduler } from './check-scheduler.js';
import { CleanupStack } from './cleanup-stack.js';
import type { PrimaryLink } from './cluster/primary-link.js';
import { createApp } from './create-app.js';
import { loadExtensions } from './extensions/load-extensions.js';
import { tryAddress } from './listen-address.js';
import { listen } from './listen.js';
import { openDatabase, openDatabaseServer, prepareDatabase, type StartContext } from './open-database.js';

/** The service, accepting requests. */
export interface RunningService {
  /** Without a trailing slash. */
  readonly url: string;
  /** Finishes requests in progress, closes everything and stops the embedded PostgreSQL. Idempotent. */
  stop(): Promise<void>;
}

/**
 * Starts the service in this process: extensions, database, schema, application, socket.
 * @param primary in one of several server processes: provides the database and the port
 * @throws Error of the step that failed, or the reason of `context.stop`; everything is closed again
 */
export function serve(context: StartContext, primary?: PrimaryLink): Promise<RunningService> {
  const { settings, log, stop } = context;
  const cleanup = new CleanupStack();
  return cleanup.orClose(log, async () => {
    const extensions = await loadExtensions(settings);
    if (!primary) {
      checkScheduler(settings, extensions.modules);
      await tryAddress(settings.host, settings.port);
    }
    const tracing = await openTracing(log, cleanup);
    const databaseUrl = primary ? await primary.setUp() : (await openDatabaseServer(context, cleanup))();
    stop.throwIfAborted();
    const dataSource = await openDatabase(databaseUrl, context, cleanup, extensions);
    if (!primary) await prepareDatabase(dataSource, log, extensions);
    stop.throwIfAborted();
    return extensions.explain(async () => {
      const app = await createApp({ ...context, dataSource, tracing }, extensions.modules);
      cleanup.add(() => app.close());
      if (primary) app.get(MetricsPage).readFrom(() => primary.scrape());
      const port = primary ? await primary.awaitPort() : settings.port;
      stop.throwIfAborted();
      const url = await listen(app, { host: settings.host, port }, cleanup);
      await primary?.announce(url, () => app.get(Registry).getMetricsAsJSON());
      return { url, stop: () => cleanup.close() };
    });
  });
}
