/**
 * Removes something batch by batch until a batch is not full, or the signal aborts.
 * @param remove one batch; answers how many it removed
 * @returns how many it removed altogether
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
