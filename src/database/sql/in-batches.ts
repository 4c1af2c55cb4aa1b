import { untilWoken } from '../../common/waits/until-woken.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** Longest pause after a batch, in milliseconds. */
const LONGEST_PAUSE_MS = 1_000;

const NEVER = new AbortController().signal;

/**
 * Calls `remove` until a batch is smaller than the limit, or the signal aborts.
 * @returns the sum of its results
 */
export async function inBatches(
  limit: number,
  stop: AbortSignal | undefined,
  remove: () => Promise<number>,
): Promise<number> {
  let removed = 0;
  for (;;) {
    if (stop?.aborted === true) return removed;
    const count = await remove();
    removed += count;
    if (count < limit) return removed;
  }
}

/**
 * Runs a batch of background work, and pauses for `rest` times as long as it took, at most a second: a slower database gets longer
 * pauses, and the work uses one connection at most half of the time. @param stop ends the pause
 */
export async function paced<T>(stop: AbortSignal | undefined, batch: () => Promise<T>, rest = 1): Promise<T> {
  const startedAt = monotonicMs();
  const result = await batch();
  const pauseMs = Math.min(rest * (monotonicMs() - startedAt), LONGEST_PAUSE_MS);
  await untilWoken({ signal: stop ?? NEVER, forMs: pauseMs }, () => () => undefined);
  return result;
}
