/** Time as the worker sees it, so that tests can set it. */
export interface Clock {
  /** Milliseconds since some fixed moment; never goes back. */
  nowMs(): number;
  /** The time of day: milliseconds since 1970 in UTC. */
  epochMs(): number;
  /** Resolves after `ms` milliseconds, or as soon as the signal is aborted. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** The real time. */
export const SYSTEM_CLOCK: Clock = {
  nowMs: () => performance.now(),
  epochMs: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted === true) {
        resolve();
        return;
      }
      const finish = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', finish);
        resolve();
      };
      const timer = setTimeout(finish, ms);
      signal?.addEventListener('abort', finish, { once: true });
    }),
};
