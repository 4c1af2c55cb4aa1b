import { monotonicMs } from '../monotonic-ms.js';

/** Ends of waits are rounded down to a multiple of this, in milliseconds. */
export const STEP_MS = 250;

/** Waits that end at the same time. */
interface Step {
  readonly timer: NodeJS.Timeout;
  readonly ends: Set<() => void>;
}

/**
 * Timeouts of waits that may end up to STEP_MS early. Those that end within one step share a timer: a process with
 * thousands of waiting requests wakes up a few times a second, and handles the responses and the next requests of many
 * clients at once, which costs a fraction of the CPU.
 */
class LongWaits {
  readonly #steps = new Map<number, Step>();

  /** Calls `end` after at most so many milliseconds. @returns how to cancel that */
  endWithin(ms: number, end: () => void): () => void {
    const now = monotonicMs();
    const at = Math.floor((now + ms) / STEP_MS);
    let step = this.#steps.get(at);
    if (step === undefined) {
      const timer = setTimeout(() => this.#end(at), Math.max(0, at * STEP_MS - now));
      step = { timer, ends: new Set() };
      this.#steps.set(at, step);
    }
    const { timer, ends } = step;
    ends.add(end);
    return () => {
      if (!ends.delete(end) || ends.size > 0 || this.#steps.get(at)?.ends !== ends) return;
      clearTimeout(timer);
      this.#steps.delete(at);
    };
  }

  #end(at: number): void {
    const step = this.#steps.get(at);
    this.#steps.delete(at);
    for (const end of step?.ends ?? []) end();
  }
}

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
