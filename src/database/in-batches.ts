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
