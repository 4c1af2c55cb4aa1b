const open = new Set();

/**
 * Remembers how to stop something, so that a benchmark that is interrupted leaves neither processes nor folders.
 * @returns the same `stop`, to be called when it is no longer needed; at most its first call does anything
 */
export function stoppedAtTheEnd(stop) {
  let stopping;
  const once = () => {
    stopping ??= stop().finally(() => open.delete(once));
    return stopping;
  };
  open.add(once);
  return once;
}

/** Stops whatever is still running, the last started first. */
export async function stopLeftovers() {
  for (const stop of [...open].toReversed()) await stop().catch(() => undefined);
}
