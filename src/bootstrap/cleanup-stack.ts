import type { Log } from '../common/logging/logger.js';

/** Cleanup callbacks registered during startup; run in reverse order. */
export class CleanupStack {
  readonly #callbacks: (() => Promise<void>)[] = [];
  #closed: Promise<void> | undefined;

  add(callback: () => Promise<void>): void {
    this.#callbacks.push(callback);
  }

  /** Runs all callbacks, even if some fail. Idempotent. @throws the first error */
  close(): Promise<void> {
    this.#closed ??= this.#runAll();
    return this.#closed;
  }

  /** Runs a start that registers callbacks here. @throws its error, after `close` */
  async orClose<T>(log: Log, start: () => Promise<T>): Promise<T> {
    try {
      return await start();
    } catch (error) {
      await this.close().catch((problem: unknown) => {
        log.error('could not clean up after a failed start', { error: problem });
      });
      throw error;
    }
  }

  async #runAll(): Promise<void> {
    const errors: unknown[] = [];
    for (const callback of this.#callbacks.splice(0).toReversed()) {
      await callback().catch((error: unknown) => errors.push(error));
    }
    if (errors.length > 0) throw errors[0];
  }
}

/**
 * Waits for a step of the start.
 * @param discard receives a result that comes after the abort
 * @throws the reason of `stop` when it aborts first
 */
export async function abortable<T>(
  work: Promise<T>,
  stop: AbortSignal,
  discard: (late: T) => Promise<void> | void = () => undefined,
): Promise<T> {
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => {
      work.then(discard).catch(() => undefined);
      reject(stop.reason instanceof Error ? stop.reason : new Error('the start was aborted'));
    };
    if (stop.aborted) onAbort();
    else stop.addEventListener('abort', onAbort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    if (onAbort) stop.removeEventListener('abort', onAbort);
  }
}
