import { createParamDecorator, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { ACCESS, missingScope, type Access, type Caller } from './access.js';
import { ApiKeyVerifier } from './api-key-verifier.js';
import { InvalidApiKey, MissingApiKey, MissingScope } from './auth.errors.js';
import { carriedKeys, isMeantToCarryKey } from './carried-keys.js';
import { OpenAnswers } from './open-answers.js';

/** Lets a request through to its route when its key is good for it; comes before everything else that is judged. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  readonly #accesses = new WeakMap<object, Access>();

  constructor(
    private readonly reflector: Reflector,
    private readonly keys: ApiKeyVerifier,
    private readonly openAnswers: OpenAnswers,
  ) {}

  /** @throws MissingApiKey, InvalidApiKey, MissingScope; what the check of the key fails with */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const access = this.#accessOf(context);
    if (access.kind === 'public') return true;
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const response = http.getResponse<Response>();
    const caller = this.#callerBy(carriedKeys(request.headers));
    return caller instanceof Promise
      ? caller.then((found) => this.#admit(found, access, request, response))
      : this.#admit(caller, access, request, response);
  }

  #admit(caller: Caller | null, access: Access, request: Request, response: Response): true {
    if (!caller) throw isMeantToCarryKey(request.headers) ? new InvalidApiKey() : new MissingApiKey();
    const missing = missingScope(access, caller);
    if (missing) throw new MissingScope(missing);
    Reflect.set(request, 'user', caller);
    this.openAnswers.watch(caller, response);
    return true;
  }

  /** The caller of the first key that is somebody's: at once when it is known, a promise when the database is asked. */
  #callerBy(keys: readonly string[]): Caller | null | Promise<Caller | null> {
    for (const [index, key] of keys.entries()) {
      const caller = this.keys.verify(key);
      if (caller instanceof Promise) {
        return caller.then((found) => found ?? this.#callerBy(keys.slice(index + 1)));
      }
      if (caller) return caller;
    }
    return null;
  }

  #accessOf(context: ExecutionContext): Access {
    const handler = context.getHandler();
    const known = this.#accesses.get(handler);
    if (known) return known;
    const access = this.reflector.getAllAndOverride<Access>(ACCESS, [handler, context.getClass()]);
    this.#accesses.set(handler, access);
    return access;
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

function isCaller(user: unknown): user is Caller {
  return typeof user === 'object' && user !== null && 'scopes' in user && 'name' in user;
}
