import type { IncomingHttpHeaders } from 'node:http';

const BEARER = 'Bearer ';

/** The keys that a request carries, in the order in which they are tried: `X-API-Key`, then `Authorization: Bearer`. */
export function carriedKeys(headers: IncomingHttpHeaders): readonly string[] {
  const own = headers['x-api-key'];
  const { authorization } = headers;
  const keys = typeof own === 'string' && own !== '' ? [own] : [];
  if (authorization?.startsWith(BEARER) === true) keys.push(authorization.slice(BEARER.length));
  return keys;
}

/** Whether a request carries something that is meant to be a key. */
export function isMeantToCarryKey({ authorization, 'x-api-key': own }: IncomingHttpHeaders): boolean {
  return own !== undefined || authorization !== undefined;
}
