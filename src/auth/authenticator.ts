import passport from 'passport';
import { HeaderAPIKeyStrategy } from 'passport-headerapikey';
import type { ApiKeyVerifier } from './api-key-verifier.js';

/**
 * Injection token of the application's own `Authenticator`: the one that passport exports is shared by all applications of
 * the process.
 */
export const AUTHENTICATOR = Symbol('AUTHENTICATOR');

/** In the order in which they are tried. */
export const API_KEY_STRATEGIES = ['x-api-key', 'bearer'];

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
