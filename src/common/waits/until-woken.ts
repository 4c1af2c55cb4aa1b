import { LongWaits } from './long-waits.js';

/** Waits of at least this many milliseconds may end a little early. */
const LONG_WAIT_MS = 5_000;

const longWaits = new LongWaits();

export interface WaitEnds {
  readonly signal: AbortSignal;
  /** Timeout in milliseconds; from five seconds on, the wait may end up to 250 ms early. */
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
    let cancelTimeout: (() => void) | undefined;
    let isOver = false;
    let remove: (() => void) | undefined;
    const settle = (value: T | null): void => {
      isOver = true;
      cancelTimeout?.();
      signal.removeEventListener('abort', giveUp);
      remove?.();
      resolve(value);
    };
    const giveUp = (): void => settle(null);
    if (forMs !== undefined) cancelTimeout = timeout(forMs, giveUp);
    signal.addEventListener('abort', giveUp);
    remove = begin(settle);
    // `begin` may have settled the wait itself.
    if (isOver) remove();
  });
}

function timeout(ms: number, end: () => void): () => void {
  if (ms >= LONG_WAIT_MS) return longWaits.endWithin(ms, end);
  const timer = setTimeout(end, ms);
  return () => clearTimeout(timer);
}
