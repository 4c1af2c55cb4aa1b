import { createParamDecorator, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { ACCESS, missingScope, type Access, type Caller } from './access.js';
import { ApiKeyPassport, isCaller } from './api-key-passport.js';
import { InvalidApiKey, MissingApiKey, MissingScope } from './auth.errors.js';
import { OpenAnswers } from './open-answers.js';

/** Lets a request through to its route when its key is good for it; comes before everything else that is judged. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    private readonly reflector: Reflector,
    private readonly passport: ApiKeyPassport,
    private readonly openAnswers: OpenAnswers,
  ) {}

  /** @throws MissingApiKey, InvalidApiKey, MissingScope */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const access = this.reflector.getAllAndOverride<Access>(ACCESS, [
      context.getHandler(),
      context.getClass(),
    ]);
    if (access.kind === 'public') return true;
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const response = http.getResponse<Response>();
    const caller = await this.passport.authenticate(request, response);
    if (!caller) throw carriesKey(request) ? new InvalidApiKey() : new MissingApiKey();
    const missing = missingScope(access, caller);
    if (missing) throw new MissingScope(missing);
    Reflect.set(request, 'user', caller);
    this.openAnswers.watch(caller, response);
    return true;
  }
}

/** The caller that the guard has let in. @throws MissingApiKey on a route that takes requests without a key */
export function callerOf(request: Request): Caller {
  const caller = findCaller(request);
  if (!caller) throw new MissingApiKey();
  return caller;
}

/** The caller that the guard has let in, or null on a route that takes requests without a key. */
export function findCaller(request: Request): Caller | null {
  const user: unknown = Reflect.get(request, 'user');
  return isCaller(user) ? user : null;
}

/** Parameter: the caller of the request. */
export const CurrentCaller = createParamDecorator((_: unknown, context: ExecutionContext): Caller =>
  callerOf(context.switchToHttp().getRequest<Request>()),
);

function carriesKey({ headers }: Request): boolean {
  return headers['x-api-key'] !== undefined || headers.authorization !== undefined;
}
