import { setTimeout as sleep } from 'node:timers/promises';
import type { NestExpressApplication } from '@nestjs/platform-express';
import { Registry } from 'prom-client';
import { Drain } from '../common/http/server/drain.js';
import { MetricsPage } from '../common/metrics/metrics.controller.js';
import { packageVersion } from '@longshore/common/settings/package-version';
import { spanStorage } from '@longshore/common/tracing/current-span';
import { startTracing } from '@longshore/common/tracing/start-tracing';
import { RunJournal } from '../runs/journal/run-journal.js';
import { CleanupStack } from './cleanup-stack.js';
import type { PrimaryLink } from './cluster/primary-link.js';
import { createApp } from './create-app.js';
import { loadExtensions } from './extensions/load-extensions.js';
import { AddressUnusable, PortReservation } from './port-reservation.js';
import {
  checkStrategy,
  openDatabase,
  openDatabaseServer,
  prepareDatabase,
  type RunningService,
  type StartContext,
} from './open-database.js';

/** Longer than the drain and the last commit together, in milliseconds. */
const STOP_TIMEOUT_MS = 11_000;

/**
 * Starts the service in this process: extensions, database, schema, application, socket.
 * @param primary in one of several server processes: has prepared the database, and provides the port
 * @throws Error of the step that failed, or the reason of `context.stop`; everything is closed again
 */
export function serve(context: StartContext, primary?: PrimaryLink): Promise<RunningService> {
  const { settings, log, stop } = context;
  const cleanup = new CleanupStack();
  return cleanup.orClose(log, async () => {
    const extensions = await loadExtensions(settings);
    const { host } = settings;
    const reservation = new PortReservation(host, settings.port);
    if (!primary) {
      checkStrategy(settings);
      if (settings.extensions !== undefined)
        log.info('loaded extensions', { extensions: extensions.summary });
      cleanup.add(() => reservation.release());
      await reservation.hold();
    }
    const tracing = await startTracing(process.env, {
      name: 'longshore',
      version: packageVersion(),
      // The exporter warns during an unrelated request.
      warn: (reason) => spanStorage.exit(() => log.warn('spans of traces may be lost', { reason })),
    });
    // Registered early, so that the rest of the shutdown is traced.
    if (tracing !== null) cleanup.add(() => tracing.close());
    const databaseUrl = await openDatabaseServer(context, cleanup);
    stop.throwIfAborted();
    const dataSource = await openDatabase(databaseUrl, context, cleanup, extensions);
    if (!primary) await prepareDatabase(dataSource, log, reservation, extensions);
    stop.throwIfAborted();
    return extensions.explain(async () => {
      const app = await createApp({ ...context, dataSource, tracing }, extensions.modules);
      cleanup.add(() => app.close());
      if (primary) app.get(MetricsPage).readFrom(() => primary.scrape());
      const port = primary ? await primary.awaitPort() : await reservation.hold();
      stop.throwIfAborted();
      const url = await listen(app, { host, port, reservation }, cleanup);
      primary?.announce(url, () => app.get(Registry).getMetricsAsJSON());
      return { url, stop: () => cleanup.close() };
    });
  });
}

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** Released when the application is ready to listen. */
  readonly reservation?: PortReservation;
}

/**
 * Starts to accept requests. The cleanup finishes those in progress.
 * @returns the URL without a trailing slash
 * @throws AddressUnusable, or the error of the application's initialisation
 */
export async function listen(
  app: NestExpressApplication,
  { host, port, reservation }: ListenAddress,
  cleanup: CleanupStack,
): Promise<string> {
  // Apart from `listen`, so that its errors are not reported as those of the address.
  await app.init();
  await reservation?.release();
  try {
    await app.listen(port, host);
  } catch (error) {
    throw new AddressUnusable(host, port, error);
  }
  cleanup.add(async () => {
    const timeout = sleep(STOP_TIMEOUT_MS, undefined, { ref: false });
    await app.get(Drain).begin();
    // Aborted requests may leave commands behind whose database does not answer.
    await Promise.race([app.get(RunJournal).idle(), timeout]);
  });
  return urlOf(app);
}

function urlOf(app: NestExpressApplication): string {
  const address = app.getHttpServer().address();
  if (address === null || typeof address === 'string') throw new Error('the server has no TCP address');
  const host = address.family === 'IPv6' ? `[${address.address}]` : address.address;
  return `http://${host}:${address.port}`;
}
