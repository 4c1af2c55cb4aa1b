import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import type passport from 'passport';
import { createHeaderDecorator } from '../common/http/request/handler-inputs.js';
import { accessOf, type Caller } from './access.js';
import { InvalidApiKey, MissingApiKey } from './auth.errors.js';
import { API_KEY_STRATEGIES, AUTHENTICATOR } from './authenticator.js';
import { OpenAnswers } from './revoked-key-responses.js';

declare global {
  namespace Express {
    /** The type of `request.user`, which passport declares for applications to extend. */
    interface User extends Caller {}
  }
}

/** Authenticates the request and sets `request.user`, unless the route is public. It runs before all other guards. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  constructor(
    @Inject(AUTHENTICATOR) private readonly authenticator: passport.Authenticator,
    private readonly reflector: Reflector,
    private readonly openAnswers: OpenAnswers,
  ) {}

  /**
   * Returns synchronously when the key is known: Nest waits for promises only.
   * @throws MissingApiKey, InvalidApiKey; the error of the database when the key cannot be checked
   */
  canActivate(context: ExecutionContext): boolean | Promise<boolean> {
    if (accessOf(this.reflector, context).kind === 'public') return true;
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const response = http.getResponse<Response>();
    // Nothing that ran before may have named the caller.
    request.user = undefined;
    const authenticated = this.#authenticate(request, response);
    if (request.user) return this.#admit(request, response);
    return authenticated.then(() => this.#admit(request, response));
  }

  #admit(request: Request, response: Response): true {
    if (!request.user) throw hasCredentials(request) ? new InvalidApiKey() : new MissingApiKey();
    this.openAnswers.watch(request.user, response);
    return true;
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
}

/** The authenticated caller. @throws MissingApiKey on a public route */
export function callerOf(request: Request): Caller {
  const caller = findCaller(request);
  if (!caller) throw new MissingApiKey();
  return caller;
}

/** The authenticated caller, or null on a public route. */
export function findCaller(request: Request): Caller | null {
  return request.user ?? null;
}

/** Parameter: the caller of the request. */
export const CurrentCaller = createHeaderDecorator((_: unknown, context: ExecutionContext): Caller =>
  callerOf(context.switchToHttp().getRequest<Request>()),
);

function hasCredentials({ headers }: Request): boolean {
  return headers['x-api-key'] !== undefined || headers.authorization !== undefined;
}
