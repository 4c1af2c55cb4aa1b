import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

const ACCEPTABLE = /^[A-Za-z0-9._-]{1,64}$/;

type IdentifiedRequest = IncomingMessage & { requestId?: string };

/** Gives the request an id and sends it back: the client's `X-Request-Id` if it is short and plain, else a random one. */
export function assignRequestId(request: IdentifiedRequest, response: ServerResponse): string {
  const given = request.headers['x-request-id'];
  const id = typeof given === 'string' && ACCEPTABLE.test(given) ? given : randomUUID();
  request.requestId = id;
  response.setHeader('X-Request-Id', id);
  return id;
}

/** The id of a request; undefined when another HTTP adapter received it. */
export function requestIdOf(request: IdentifiedRequest): string | undefined {
  return request.requestId;
}
