import { Injectable } from '@nestjs/common';
import type { Request, Response } from 'express';
import passport from 'passport';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';
import type { Caller } from './access.js';
import { ApiKeyVerifier } from './api-key-verifier.js';

/** Names of the strategies, in the order in which they are tried. */
const STRATEGIES = ['x-api-key', 'bearer'];

type Verify = HeaderAPIKeyStrategy['verify'];

/**
 * Passport with the two headers that can carry a key. Each application has its own: the package's shared instance
 * would make applications in one process answer for each other's keys.
 */
@Injectable()
export class ApiKeyPassport {
  readonly #passport = new passport.Authenticator();

  constructor(private readonly keys: ApiKeyVerifier) {
    const verify: Verify = (key, done) => void this.#verify(key, done);
    this.#passport
      .use('x-api-key', new HeaderAPIKeyStrategy({ header: 'X-API-Key', prefix: '' }, false, verify))
      .use('bearer', new HeaderAPIKeyStrategy({ header: 'Authorization', prefix: 'Bearer ' }, false, verify));
  }

  /** The caller whose key the request carries, or null. @throws what the check of the key fails with */
  authenticate(request: Request, response: Response): Promise<Caller | null> {
    return new Promise((resolve, reject) => {
      const decided = (error: unknown, user: unknown): void => {
        if (error) reject(toError(error));
        else resolve(isCaller(user) ? user : null);
      };
      this.#passport.authenticate(STRATEGIES, { session: false }, decided)(request, response, reject);
    });
  }

  async #verify(key: string, done: Parameters<Verify>[1]): Promise<void> {
    let caller: Caller | null;
    try {
      caller = await this.keys.verify(key);
    } catch (error) {
      done(toError(error));
      return;
    }
    done(null, caller ?? undefined);
  }
}

/** Whether a value is a caller. */
export function isCaller(user: unknown): user is Caller {
  return typeof user === 'object' && user !== null && 'scopes' in user && 'name' in user;
}

function toError(error: unknown): Error {
  return error instanceof Error ? error : new Error('the check of an API key failed', { cause: error });
}
