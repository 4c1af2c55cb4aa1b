import type { Log } from '../logging/logger.js';
import type { CleanupStack } from '../../bootstrap/cleanup-stack.js';
import { packageVersion } from '@longshore/common/settings/package-version';
import { spanStorage } from '@longshore/common/tracing/current-span';
import { startTracing } from '@longshore/common/tracing/start-tracing';
import type { Tracing } from '@longshore/common/tracing/tracing';

/**
 * Starts tracing if the environment configures it. The cleanup sends the remaining spans; open tracing first, so that the
 * rest of the shutdown is traced.
 * @returns null when tracing is off
 */
export async function openTracing(log: Log, cleanups: CleanupStack): Promise<Tracing | null> {
  const tracing = await startTracing(process.env, {
    name: 'longshore',
    version: packageVersion(),
    // The exporter warns during an unrelated request.
    warn: (reason) => spanStorage.exit(() => log.warn('spans of traces may be lost', { reason })),
  });
  if (tracing !== null) cleanups.add(() => tracing.close());
  return tracing;
}
