import type { Clock } from '@longshore/worker/process/clock';

/** How long a connection may be silent while the reader waits for it. */
export interface SilenceLimit {
  readonly clock: Clock;
  readonly limitMs: number;
  /** Resolves when the limit begins to hold; absent: at once. */
  readonly from?: (signal: AbortSignal) => Promise<void>;
}

/**
 * The chunks of a connection. A load balancer can drop a connection without telling either side, and a node can stop to write to it: one that
 * is silent for too long is ended with an error. Time in which the reader is busy does not count.
 */
export async function* liveChunks(
  open: (signal: AbortSignal) => Promise<AsyncIterable<Buffer>>,
  { clock, limitMs, from }: SilenceLimit,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void, undefined> {
  const silent = new AbortController();
  const over = new AbortController();
  let waitingSinceMs: number | null = clock.nowMs();
  void watch();
  try {
    for await (const chunk of await open(AbortSignal.any([signal, silent.signal]))) {
      waitingSinceMs = null;
      yield chunk;
      waitingSinceMs = clock.nowMs();
    }
  } finally {
    over.abort();
  }

  async function watch(): Promise<void> {
    await from?.(over.signal);
    const beganMs = clock.nowMs();
    while (!over.signal.aborted) {
      const nowMs = clock.nowMs();
      const leftMs = Math.max(waitingSinceMs ?? nowMs, beganMs) + limitMs - nowMs;
      if (leftMs <= 0) silent.abort(new Error(`the log gave nothing for ${limitMs / 1000} s`));
      if (silent.signal.aborted) return;
      await clock.sleep(leftMs, over.signal);
    }
  }
}
