import { Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request } from 'express';
import { accessOf, missingScope } from './access.js';
import { callerOf } from './api-key.guard.js';
import { MissingScope } from './auth.errors.js';

/** Refuses callers whose key lacks the scopes that the route declares. It runs after authentication. */
@Injectable()
export class ScopesGuard implements CanActivate {
  constructor(private readonly reflector: Reflector) {}

  /** @throws MissingScope */
  canActivate(context: ExecutionContext): boolean {
    const access = accessOf(this.reflector, context);
    if (access.kind === 'public') return true;
    const missing = missingScope(access, callerOf(context.switchToHttp().getRequest<Request>()));
    if (missing) throw new MissingScope(missing);
    return true;
  }
}
