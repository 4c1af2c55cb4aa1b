import type { Schemas } from '../../api/use-api.js';
import type { Scope } from '@longshore/client/constants';

/** An API key as the API has it. */
export type ApiKey = Schemas['ApiKey'];

export type KeyState = 'active' | 'expired' | 'revoked';

/** What the scopes permit, in the order of the form. */
export const PERMISSIONS: Readonly<Record<Scope, string>> = {
  client: 'create, read, cancel and retry runs; definitions; feeds; this dashboard',
  worker: 'claim runs and report on them',
  metrics: 'read the metrics',
  admin: 'everything, also keys, audit and direct changes',
};

/** @param now milliseconds since 1970, by the service's clock */
export function stateOf({ revoked_at: revokedAt, expires_at: expiresAt }: ApiKey, now: number): KeyState {
  if (revokedAt !== null) return 'revoked';
  return expiresAt !== null && Date.parse(expiresAt) <= now ? 'expired' : 'active';
}

/** Whether it is the key of the present session: the tab knows the key itself, the list its beginning. */
export function isOwn(
  { name, prefix }: ApiKey,
  session: { readonly name: string; readonly apiKey: string },
): boolean {
  return session.name === name && session.apiKey.startsWith(prefix);
}
