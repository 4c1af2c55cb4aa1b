import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ThrottlerGuard, type ThrottlerModuleOptions } from '@nestjs/throttler';
import type { Request } from 'express';
import type { Settings } from '../config/settings.js';
import { callerOf, findCaller } from './api-key.guard.js';
import { TooManyRequests } from './auth.errors.js';

const MINUTE_MS = 60_000;

/**
 * The limit of the settings. It has a name of its own, so that `@SkipThrottle()` and `@Throttle()` of an extension, which
 * are for the throttlers of the extension's own ThrottlerModule, do not change it.
 */
export function rateLimitOptions({ rateLimit }: Pick<Settings, 'rateLimit'>): ThrottlerModuleOptions {
  return {
    throttlers: [{ name: 'service', ttl: MINUTE_MS, limit: rateLimit }],
    setHeaders: false,
  };
}

/**
 * Refuses what a key sends beyond its requests a minute (SERVICE_RATE_LIMIT). It stands behind the check of keys: a
 * wrong key uses up nobody's requests, and routes that need no key are not limited. Without a limit it is left out.
 */
@Injectable()
export class RateLimitGuard extends ThrottlerGuard {
  protected override shouldSkip(context: ExecutionContext): Promise<boolean> {
    return Promise.resolve(findCaller(context.switchToHttp().getRequest<Request>()) === null);
  }

  protected override getTracker(request: Request): Promise<string> {
    return Promise.resolve(callerOf(request).id);
  }

  /** All routes share one count. */
  protected override generateKey(_: ExecutionContext, caller: string): string {
    return caller;
  }

  /** @throws TooManyRequests */
  protected override throwThrottlingException(
    _: ExecutionContext,
    { timeToBlockExpire }: { readonly timeToBlockExpire: number },
  ): Promise<void> {
    throw new TooManyRequests(timeToBlockExpire);
  }
}
