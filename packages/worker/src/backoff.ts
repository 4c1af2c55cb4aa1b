/** Bounds of a back-off, in milliseconds. */
export interface BackoffBounds {
  readonly firstMs: number;
  readonly maxMs: number;
}

/** Longest wait that a server may ask for with Retry-After, in milliseconds. */
export const MAX_RETRY_AFTER_MS = 60_000;

/**
 * Pauses between tries of one thing: doubling from `firstMs` to `maxMs`, each drawn from its upper half, so that many
 * workers that lost the same server do not come back in step.
 */
export class Backoff {
  private failures = 0;

  constructor(
    private readonly bounds: BackoffBounds,
    private readonly random: () => number,
  ) {}

  /**
   * The pause before the next try, in milliseconds.
   * @param retryAfterSeconds what the server asked for; a longer pause than our own is kept to, up to a minute
   */
  nextMs(retryAfterSeconds?: number): number {
    const { firstMs, maxMs } = this.bounds;
    const fullMs = Math.min(maxMs, firstMs * 2 ** Math.min(this.failures, 30));
    this.failures += 1;
    const asked = Math.min((retryAfterSeconds ?? 0) * 1000, MAX_RETRY_AFTER_MS);
    return Math.max(asked, fullMs / 2 + (this.random() * fullMs) / 2);
  }

  /** Starts over after a success. */
  reset(): void {
    this.failures = 0;
  }
}
