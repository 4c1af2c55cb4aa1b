import { Registry } from 'prom-client';
import { createApp } from '../create-app.js';
import { loadExtensions } from '../extensions/load-extensions.js';
import { listen } from '../listen.js';
import { MetricsPage } from '../../common/metrics/metrics-page.js';
import { openDatabase, type StartContext } from '../open-database.js';
import { openTracing } from '../../common/tracing/open-tracing.js';
import { CleanupStack } from '../cleanup-stack.js';
import type { RunningService } from '../serve.js';
import type { PrimaryLink } from './primary-link.js';

/**
 * Starts one of several server processes: the database and the port are the primary's.
 * @throws Error when a part cannot be had, the reason of the stop when that came first; what had been started is stopped
 * again
 */
export function serveAsProcess(context: StartContext, link: PrimaryLink): Promise<RunningService> {
  const { settings, log, stop } = context;
  const opened = new CleanupStack();
  return opened.orClose(log, async () => {
    const extensions = await loadExtensions(settings);
    const tracing = await openTracing(log, opened);
    const dataSource = await openDatabase(await link.setUp(), context, opened, extensions);
    stop.throwIfAborted();
    return extensions.explain(async () => {
      const app = await createApp({ ...context, dataSource, tracing }, extensions.modules);
      opened.add(() => app.close());
      app.get(MetricsPage).readFrom(() => link.scrape());
      const port = await link.awaitPort();
      stop.throwIfAborted();
      const url = await listen(app, { host: settings.host, port }, opened);
      await link.announce(url, () => app.get(Registry).getMetricsAsJSON());
      return { url, stop: () => opened.close() };
    });
  });
}
