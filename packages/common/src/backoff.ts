export interface BackoffBounds {
  readonly firstMs: number;
  readonly maxMs: number;
}

/** Limit of Retry-After, in milliseconds. */
export const MAX_RETRY_AFTER_MS = 60_000;

/** Exponential back-off: pauses double from `firstMs` to `maxMs`, with a random factor from 0.5 to 1. */
export class Backoff {
  private count = 0;

  constructor(
    private readonly bounds: BackoffBounds,
    private readonly random: () => number = Math.random,
  ) {}

  /** Pauses since the start or the last reset. */
  get failures(): number {
    return this.count;
  }

  /** @param retryAfterSeconds minimum pause that the server asks for, limited to a minute */
  nextMs(retryAfterSeconds?: number): number {
    const { firstMs, maxMs } = this.bounds;
    const fullMs = Math.min(maxMs, firstMs * 2 ** Math.min(this.count, 30));
    this.count += 1;
    const asked = Math.min((retryAfterSeconds ?? 0) * 1000, MAX_RETRY_AFTER_MS);
    return Math.max(asked, fullMs / 2 + (this.random() * fullMs) / 2);
  }

  reset(): void {
    this.count = 0;
  }
}
