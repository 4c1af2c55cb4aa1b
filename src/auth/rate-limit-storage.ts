import { Injectable } from '@nestjs/common';
import type { ThrottlerStorage } from '@nestjs/throttler';
import { MonotonicClock } from './monotonic-clock.js';

interface Window {
  readonly endsAt: number;
  hits: number;
}

type Increment = Awaited<ReturnType<ThrottlerStorage['increment']>>;

/**
 * Counts requests in windows that begin with a caller's first request and last a fixed time. One number per caller;
 * windows that have ended are dropped when a new one begins.
 */
@Injectable()
export class RateWindows implements ThrottlerStorage {
  /** In the order of their ends, because all last equally long. */
  readonly #windows = new Map<string, Window>();

  constructor(private readonly clock: MonotonicClock) {}

  /** How many windows are kept. */
  get size(): number {
    return this.#windows.size;
  }

  /**
   * Counts one request.
   * @param ttlMs length of a window in milliseconds, the same at every call
   */
  increment(key: string, ttlMs: number, limit: number): Promise<Increment> {
    const now = this.clock.now();
    const window = this.#windowOf(key, ttlMs, now);
    window.hits += 1;
    const secondsLeft = Math.ceil((window.endsAt - now) / 1000);
    return Promise.resolve({
      totalHits: window.hits,
      timeToExpire: secondsLeft,
      isBlocked: window.hits > limit,
      timeToBlockExpire: secondsLeft,
    });
  }

  #windowOf(key: string, ttlMs: number, now: number): Window {
    const open = this.#windows.get(key);
    if (open && open.endsAt > now) return open;
    for (const [name, { endsAt }] of this.#windows) {
      if (endsAt > now) break;
      this.#windows.delete(name);
    }
    const fresh: Window = { endsAt: now + ttlMs, hits: 0 };
    this.#windows.set(key, fresh);
    return fresh;
  }
}
