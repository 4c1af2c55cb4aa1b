import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import type passport from 'passport';
import { createHeaderDecorator } from '../common/http/request/handler-inputs.js';
import {
  accessOf,
  actsAs,
  beyondBinding,
  covers,
  isBound,
  missingScope,
  servesBoundKeys,
  type Access,
  type Caller,
  type TagsAndCapabilities,
} from './access.js';
import {
  InvalidApiKey,
  KeyOfOtherTags,
  KeyOfOtherWorker,
  MissingApiKey,
  MissingScope,
  RouteNotForBoundKeys,
} from './auth.errors.js';
import { API_KEY_STRATEGIES, AUTHENTICATOR } from './authenticator.js';
import { RevokedKeyResponses } from './revoked-key-responses.js';

declare global {
  namespace Express {
    /** The type of `request.user`, which passport declares for applications to extend. */
    interface User extends Caller {}
  }
}

/**
 * Authenticates the request, sets `request.user` and checks the scopes that the route declares, unless the route is
 * public. It runs before all other guards.
 */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    @Inject(AUTHENTICATOR) private readonly authenticator: passport.Authenticator,
    private readonly reflector: Reflector,
    private readonly responses: RevokedKeyResponses,
  ) {}

  /**
   * Returns synchronously when the key is known: Nest waits for promises only.
   * @throws MissingApiKey, InvalidApiKey, TooManyFailedAuthentications, MissingScope, RouteNotForBoundKeys; the error of
   * the database when the key cannot be checked
   */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    const access = accessOf(this.reflector, context);
    if (access.kind === 'public') return true;
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const response = http.getResponse<Response>();
    // Middleware must not be able to set the caller.
    request.user = undefined;
    const authenticated = this.#authenticate(request, response);
    if (request.user) return this.#authorize(access, context, request, response);
    return authenticated.then(() => this.#authorize(access, context, request, response));
  }

  /** Sets `request.user` to the caller of the first key that is valid. */
  #authenticate(request: Request, response: Response): Promise<void> {
    return new Promise((resolve, reject) => {
      const authenticate = this.authenticator.authenticate(
        API_KEY_STRATEGIES,
        { session: false },
        (error: unknown, caller?: Caller | false | null) => {
          if (caller) request.user = caller;
          if (error instanceof Error) reject(error);
          else resolve();
        },
      );
      authenticate(request, response, reject);
    });
  }

  #authorize(access: Access, context: ExecutionContext, request: Request, response: Response): true {
    const { user, headers } = request;
    if (!user) {
      const hasCredentials = headers['x-api-key'] !== undefined || headers.authorization !== undefined;
      throw hasCredentials ? new InvalidApiKey() : new MissingApiKey();
    }
    const missing = missingScope(access, user);
    if (missing) throw new MissingScope(missing);
    if (isBound(user) && !servesBoundKeys(this.reflector, context)) throw new RouteNotForBoundKeys();
    this.responses.add(user, response);
    return true;
  }
}

/** The authenticated caller. @throws MissingApiKey on a public route */
export function callerOf({ user }: Request): Caller {
  if (!user) throw new MissingApiKey();
  return user;
}

/** @throws KeyOfOtherWorker when the caller's key is bound to other workers */
export function assertActsAs(caller: Caller, workerId: string): void {
  if (!actsAs(caller, workerId)) throw new KeyOfOtherWorker(workerId);
}

/** @throws KeyOfOtherTags when the caller's key is bound to other tags or capabilities */
export function assertCovers(caller: Caller, has: TagsAndCapabilities): void {
  if (!covers(caller, has)) throw new KeyOfOtherTags(beyondBinding(caller, has));
}

/** Parameter: the caller of the request. */
export const CurrentCaller = createHeaderDecorator((_: unknown, context: ExecutionContext): Caller =>
  callerOf(context.switchToHttp().getRequest<Request>()),
);
