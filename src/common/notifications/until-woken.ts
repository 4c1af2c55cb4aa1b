export interface WaitEnds {
  readonly signal: AbortSignal;
  /** Timeout in milliseconds. */
  readonly forMs?: number;
}

/**
 * Waits in memory for a value, a timeout or a signal.
 * @param begin registers the waiter; the function that it returns removes it, and is called once when the wait ends
 * @returns the value; null after a timeout or an abort
 */
export function untilWoken<T>(
  { signal, forMs }: WaitEnds,
  begin: (wake: (value: T) => void) => () => void,
): Promise<T | null> {
  if (signal.aborted) return Promise.resolve(null);
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    let isOver = false;
    let remove: (() => void) | undefined;
    const settle = (value: T | null): void => {
      isOver = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
      remove?.();
      resolve(value);
    };
    const giveUp = (): void => settle(null);
    if (forMs !== undefined) timer = setTimeout(giveUp, forMs);
    signal.addEventListener('abort', giveUp);
    remove = begin(settle);
    // `begin` may have settled the wait itself.
    if (isOver) remove();
  });
}
