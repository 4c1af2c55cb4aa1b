/**
 * Waits for a piece of a start.
 * @param discard gets what the work brings after the start was given up
 * @throws the reason of `stop` when that aborts first
 */
export async function abortable<T>(
  work: Promise<T>,
  stop: AbortSignal,
  discard: (late: T) => Promise<void> | void = () => undefined,
): Promise<T> {
  let onAbort: (() => void) | undefined;
  const stopped = new Promise<never>((_resolve, reject) => {
    onAbort = () => {
      work.then(discard).catch(() => undefined);
      reject(stop.reason instanceof Error ? stop.reason : new Error('the start was given up'));
    };
    if (stop.aborted) onAbort();
    else stop.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([work, stopped]);
  } finally {
    if (onAbort) stop.removeEventListener('abort', onAbort);
  }
}
