/** Why an execution stops before its container has ended. */
export type StopReason =
  /** The attempt has ended or is assigned to another worker: nothing is reported. */
  | { readonly kind: 'lost'; readonly why: string }
  /** Reported as FAILED. */
  | { readonly kind: 'shutting-down' }
  /** The service refuses the worker's key, for longer than the drain time: nothing can be reported. */
  | { readonly kind: 'key-refused' };

/** Thrown inside a stopped execution. */
export class Stopped extends Error {
  constructor(readonly reason: StopReason) {
    super(`stopped: ${reason.kind}`);
    this.name = 'Stopped';
  }
}

/** Requests an execution to stop. Only the first reason counts. */
export class StopSignal {
  private readonly controller = new AbortController();

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  stop(reason: StopReason): void {
    this.controller.abort(new Stopped(reason));
  }

  /** @throws Stopped after `stop` */
  check(): void {
    this.controller.signal.throwIfAborted();
  }

  /**
   * Waits for the promise, at most until `stop`.
   * @throws Stopped after `stop`
   */
  async abortable<T>(promise: Promise<T>): Promise<T> {
    const { signal } = this;
    const settled = new AbortController();
    const stopped = new Promise<never>((_, reject) => {
      const onAbort = () => reject(signal.reason);
      if (signal.aborted) onAbort();
      else signal.addEventListener('abort', onAbort, { once: true, signal: settled.signal });
    });
    try {
      return await Promise.race([stopped, promise]);
    } catch (error) {
      // An interrupted operation may fail before the listener above is called.
      signal.throwIfAborted();
      throw error;
    } finally {
      settled.abort();
    }
  }
}
