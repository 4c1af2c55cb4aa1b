import { createParamDecorator, Injectable, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { AuthGuard } from '@nestjs/passport';
import type { Request } from 'express';
import { ACCESS, missingScope, type Access, type Caller } from './access.js';
import { API_KEY_STRATEGIES } from './api-key.strategies.js';
import { InvalidApiKey, MissingApiKey, MissingScope } from './auth.errors.js';

/** Lets a request through to its route when its key is good for it; comes before everything else that is judged. */
@Injectable()
export class ApiKeyGuard extends AuthGuard(API_KEY_STRATEGIES) {
  constructor(private readonly reflector: Reflector) {
    super();
  }

  /** @throws MissingApiKey, InvalidApiKey, MissingScope */
  override async canActivate(context: ExecutionContext): Promise<boolean> {
    const access = this.reflector.getAllAndOverride<Access>(ACCESS, [
      context.getHandler(),
      context.getClass(),
    ]);
    if (access.kind === 'public') return true;
    await super.canActivate(context);
    const caller = callerOf(context.switchToHttp().getRequest<Request>());
    const missing = missingScope(access, caller);
    if (missing) throw new MissingScope(missing);
    return true;
  }

  /** Passport's verdict; its own wording never reaches a client. */
  override handleRequest<T>(error: unknown, caller: T | false, _info: unknown, context: ExecutionContext): T {
    if (error) throw error;
    if (caller) return caller;
    const { headers } = context.switchToHttp().getRequest<Request>();
    const given = headers['x-api-key'] !== undefined || headers.authorization !== undefined;
    throw given ? new InvalidApiKey() : new MissingApiKey();
  }
}

/** The caller that the guard has let in. @throws MissingApiKey on a route that takes requests without a key */
export function callerOf(request: Request): Caller {
  const user: unknown = Reflect.get(request, 'user');
  if (!isCaller(user)) throw new MissingApiKey();
  return user;
}

/** Parameter: the caller of the request. */
export const CurrentCaller = createParamDecorator((_: unknown, context: ExecutionContext): Caller =>
  callerOf(context.switchToHttp().getRequest<Request>()),
);

function isCaller(user: unknown): user is Caller {
  return typeof user === 'object' && user !== null && 'scopes' in user && 'name' in user;
}
