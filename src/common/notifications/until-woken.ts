/** What ends a wait: the signal, or the time in milliseconds. */
export interface WaitEnds {
  readonly signal: AbortSignal;
  readonly forMs?: number;
}

function stay(): void {}

/**
 * Waits in memory, for nothing but a word, a time or a signal.
 * @param begin is told how to wake the wait; what it answers is called once, when the wait is over, whatever ended it
 * @returns what it was woken with; null when the time was over or the signal aborted
 */
export function untilWoken<T>(
  { signal, forMs }: WaitEnds,
  begin: (wake: (value: T) => void) => () => void,
): Promise<T | null> {
  if (signal.aborted) return Promise.resolve(null);
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    let isOver = false;
    let leave = stay;
    const settle = (value: T | null): void => {
      isOver = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', giveUp);
      leave();
      resolve(value);
    };
    const giveUp = (): void => settle(null);
    if (forMs !== undefined) timer = setTimeout(giveUp, forMs);
    signal.addEventListener('abort', giveUp);
    leave = begin(settle);
    // It may have been woken while it began.
    if (isOver) leave();
  });
}
