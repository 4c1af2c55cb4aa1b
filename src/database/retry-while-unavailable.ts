import { setTimeout as sleep } from 'node:timers/promises';
import { isDatabaseUnavailable } from './unavailable.js';

/** How often it is tried again, in milliseconds. */
export interface OutagePauses {
  /** First pause; it doubles up to the longest. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
}

/**
 * Reads for somebody who stays while the database is away: to end an open stream instead would have every reader come
 * back at once, to a service that can only refuse it.
 * @returns undefined when the signal aborted
 * @throws what `read` throws for another reason
 */
export async function retryWhileUnavailable<T>(
  read: () => Promise<T>,
  { retryMs, longestRetryMs }: OutagePauses,
  signal: AbortSignal,
): Promise<T | undefined> {
  for (let pause = retryMs; !signal.aborted; pause = Math.min(pause * 2, longestRetryMs)) {
    try {
      return await read();
    } catch (error) {
      if (!isDatabaseUnavailable(error)) throw error;
    }
    await sleep(pause * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => undefined);
  }
  return undefined;
}
