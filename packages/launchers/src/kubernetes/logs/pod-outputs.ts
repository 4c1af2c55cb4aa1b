import { text } from 'node:stream/consumers';
import { Backoff } from '@longshore/common/backoff';
import { EngineFault } from '@longshore/worker/runtime/runtime';
import type { RemovalParts } from '../job-removal.js';
import { OUTPUTS_CONTAINER } from '../manifest/names.js';
import { parseOutputFrame } from '../manifest/output-frame.js';
import { liveChunks } from './live-chunks.js';
import { isLogGone, SILENT_MS } from './pod-log.js';

const RETRY = { firstMs: 250, maxMs: 10_000 };

/** How often a log without a complete frame is read: a node may need a moment to write it. */
const MOST_INCOMPLETE = 8;

/**
 * The output file in the log of the last container of a pod.
 * @returns null when there is none
 * @throws RunFault when it cannot be used
 * @throws EngineFault when the log is gone
 */
export async function readOutputs(
  { api, paths, clock }: Pick<RemovalParts, 'api' | 'paths' | 'clock'>,
  podName: string,
  signal: AbortSignal,
): Promise<Buffer | null> {
  const backoff = new Backoff(RETRY, Math.random);
  for (let incomplete = 0; incomplete < MOST_INCOMPLETE;) {
    const log = await readLog();
    const file = log === null ? undefined : parseOutputFrame(log);
    if (file !== undefined) return file;
    if (log !== null) incomplete += 1;
    await clock.sleep(backoff.nextMs(), signal);
    signal.throwIfAborted();
  }
  throw new EngineFault('The log with the outputs of the run is not complete');

  /** @returns null when the API server or the node does not answer */
  async function readLog(): Promise<string | null> {
    try {
      const query = { container: OUTPUTS_CONTAINER };
      const open = (until: AbortSignal) => api.stream(paths.log(podName), query, until);
      return await text(liveChunks(open, { clock, limitMs: SILENT_MS }, signal));
    } catch (error) {
      signal.throwIfAborted();
      if (isLogGone(error))
        throw new EngineFault('The log with the outputs of the run is gone', { cause: error });
      return null;
    }
  }
}
