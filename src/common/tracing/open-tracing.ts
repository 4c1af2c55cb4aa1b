import type { Log } from '../logging/logger.js';
import type { CleanupStack } from '../../bootstrap/cleanup-stack.js';
import { packageVersion } from '@longshore/common/settings/package-version';
import { spanStorage } from '@longshore/common/tracing/current-span';
import { startTracing } from '@longshore/common/tracing/start-tracing';
import type { Tracing } from '@longshore/common/tracing/tracing';

/**
 * Begins to trace if the environment asks for it. Closing `opened` sends what is left; it should be the first thing that
 * is opened, so that what is closed before it is still traced.
 * @returns null when it does not ask for it
 */
export async function openTracing(log: Log, opened: CleanupStack): Promise<Tracing | null> {
  const tracing = await startTracing(process.env, {
    name: 'longshore',
    version: packageVersion(),
    // The exporter reports it during a request that has nothing to do with it.
    warn: (reason) => spanStorage.exit(() => log.warn('spans of traces may be lost', { reason })),
  });
  if (tracing !== null) opened.add(() => tracing.close());
  return tracing;
}
