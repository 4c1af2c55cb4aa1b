/** Why an execution is stopped before its container ended by itself. */
export type StopReason =
  /** The service said that the attempt has ended or belongs to somebody else: nothing is reported. */
  | { readonly kind: 'not-ours'; readonly why: string }
  /** The worker is shutting down: reported as FAILED. */
  | { readonly kind: 'shutting-down' }
  /** The service does not know the worker any more: nothing can be reported. */
  | { readonly kind: 'key-refused' };

/** Thrown inside an execution that was stopped. */
export class Stopped extends Error {
  constructor(readonly reason: StopReason) {
    super(`stopped: ${reason.kind}`);
    this.name = 'Stopped';
  }
}

/** A request to stop that can be made once; later ones change nothing. */
export class StopSignal {
  private readonly controller = new AbortController();

  /** Aborted as soon as a stop was asked for. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  ask(reason: StopReason): void {
    this.controller.abort(new Stopped(reason));
  }

  /** @throws Stopped when a stop was asked for */
  check(): void {
    this.controller.signal.throwIfAborted();
  }

  /**
   * Waits for the promise, but no longer than until a stop is asked for; what becomes of the promise is ignored then.
   * @throws Stopped when a stop was asked for
   */
  async abortable<T>(promise: Promise<T>): Promise<T> {
    const { signal } = this;
    const over = new AbortController();
    const stopped = new Promise<never>((_, reject) => {
      const onAbort = () => reject(signal.reason);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true, signal: over.signal });
    });
    try {
      return await Promise.race([stopped, promise]);
    } catch (error) {
      // What was interrupted may fail before our own listener is called.
      signal.throwIfAborted();
      throw error;
    } finally {
      over.abort();
    }
  }
}
