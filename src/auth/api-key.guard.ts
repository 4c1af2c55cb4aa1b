import passport from 'passport';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';
import type { ApiKeyVerifier } from './api-key-verifier.js';
import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
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
import { RevokedKeyResponses } from './revoked-key-responses.js';

/**
 * Injection token of the application's own `Authenticator`: the one that passport exports is shared by all applications of
 * the process.
 */
export const AUTHENTICATOR = Symbol('AUTHENTICATOR');

/** In the order in which they are tried. */
const API_KEY_STRATEGIES = ['x-api-key', 'bearer'];

// The prefix of HeaderAPIKeyStrategy is case-sensitive; the name of an authentication scheme is not (RFC 9110, 11.1).
const BEARER = /^bearer +(?<key>.+)$/i;

type Verify = HeaderAPIKeyStrategy['verify'];

/** Authenticates requests by an API key in `X-API-Key` or in `Authorization: Bearer`. */
export function createAuthenticator(keys: ApiKeyVerifier): passport.Authenticator {
  const verify: Verify = (key, done, request) => {
    let caller: ReturnType<ApiKeyVerifier['verify']>;
    try {
      caller = keys.verify(key, request?.socket.remoteAddress ?? '');
    } catch (error) {
      // For the second key of a request, passport calls this from the promise of the first: nothing would catch it there.
      done(error instanceof Error ? error : new Error(String(error)));
      return;
    }
    // oxlint-disable-next-line promise/no-callback-in-promise -- passport takes the result by a callback
    if (caller instanceof Promise) void caller.then((found) => done(null, found ?? undefined), done);
    else done(null, caller ?? undefined);
  };
  const verifyBearer: Verify = (credentials, done, request) => {
    const key = BEARER.exec(credentials)?.groups?.['key'];
    if (key === undefined) done(null);
    else verify(key, done, request);
  };
  const strategy = (header: string, verifyHeader: Verify): HeaderAPIKeyStrategy =>
    new HeaderAPIKeyStrategy({ header, prefix: '' }, true, verifyHeader);
  const authenticator = new passport.Authenticator();
  authenticator.use('x-api-key', strategy('X-API-Key', verify));
  authenticator.use('bearer', strategy('Authorization', verifyBearer));
  return authenticator;
}

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
   * @throws MissingApiKey, InvalidApiKey, OverLimit, MissingScope, RouteNotForBoundKeys; the error of
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
      const { 'x-api-key': key, authorization } = headers;
      if (key === undefined && authorization === undefined) throw new MissingApiKey();
      throw new InvalidApiKey(key === undefined && !BEARER.test(authorization ?? ''));
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
