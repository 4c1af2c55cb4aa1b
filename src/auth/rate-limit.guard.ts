import { Injectable, type ExecutionContext } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { type ThrottlerStorage, ThrottlerGuard, type ThrottlerModuleOptions } from '@nestjs/throttler';
import type { Request } from 'express';
import type { Settings } from '../config/settings.js';
import { callerOf } from './api-key.guard.js';
import { TooManyRequests } from './auth.errors.js';

interface Window {
  readonly endsAt: number;
  hits: number;
}

type Increment = Awaited<ReturnType<ThrottlerStorage['increment']>>;

/**
 * Counts requests in fixed windows, which begin with a caller's first request. Windows that have ended are removed when a
 * new one begins.
 */
@Injectable()
export class RateLimitStorage implements ThrottlerStorage {
  /** In the order of their ends, because all have the same length. */
  readonly #windows = new Map<string, Window>();

  constructor(private readonly clock: Clock) {}

  /** Number of windows in memory. */
  get size(): number {
    return this.#windows.size;
  }

  /** Requests in the current window of a key. */
  hitsOf(key: string): number {
    const window = this.#windows.get(key);
    return window && window.endsAt > this.clock.now() ? window.hits : 0;
  }

  /** Counts one request. @param ttlMs length of a window in milliseconds, the same at every call */
  async increment(key: string, ttlMs: number, limit: number): Promise<Increment> {
    const now = this.clock.now();
    let window = this.#windows.get(key);
    if (!window || window.endsAt <= now) {
      for (const [name, { endsAt }] of this.#windows) {
        if (endsAt > now) break;
        this.#windows.delete(name);
      }
      window = { endsAt: now + ttlMs, hits: 0 };
      this.#windows.set(key, window);
    }
    window.hits += 1;
    const secondsLeft = Math.ceil((window.endsAt - now) / 1000);
    return {
      totalHits: window.hits,
      timeToExpire: secondsLeft,
      isBlocked: window.hits > limit,
      timeToBlockExpire: secondsLeft,
    };
  }
}

const MINUTE_MS = 60_000;

/**
 * The limit of the settings. It has a name of its own, so that `@SkipThrottle()` and `@Throttle()` of an extension, which
 * are for the throttlers of the extension's own ThrottlerModule, do not change it.
 */
export function rateLimitOptions({ rateLimit }: Pick<Settings, 'rateLimit'>): ThrottlerModuleOptions {
  return { throttlers: [{ name: 'service', ttl: MINUTE_MS, limit: rateLimit }], setHeaders: false };
}

/**
 * Limits the requests of a key (SERVICE_RATE_LIMIT), over all routes together. It runs after authentication: wrong keys
 * and public routes are not counted. The application omits it when there is no limit.
 */
@Injectable()
export class RateLimitGuard extends ThrottlerGuard {
  protected override async shouldSkip(context: ExecutionContext): Promise<boolean> {
    return !context.switchToHttp().getRequest<Request>().user;
  }

  protected override async getTracker(request: Request): Promise<string> {
    return callerOf(request).id;
  }

  protected override generateKey(_: ExecutionContext, callerId: string): string {
    return callerId;
  }

  /** @throws TooManyRequests */
  protected override throwThrottlingException(
    _: ExecutionContext,
    { timeToBlockExpire }: { readonly timeToBlockExpire: number },
  ): Promise<void> {
    throw new TooManyRequests(timeToBlockExpire);
  }
}
