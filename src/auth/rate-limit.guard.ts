import { Injectable, type ExecutionContext } from '@nestjs/common';
import { ThrottlerGuard, type ThrottlerModuleOptions } from '@nestjs/throttler';
import type { Request } from 'express';
import type { Settings } from '../config/settings.js';
import { callerOf } from './api-key.guard.js';
import { TooManyRequests } from './auth.errors.js';

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
