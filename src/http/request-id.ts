import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { requestContext } from '../logging/request-context.js';
import type { RequestTracer } from './request-tracer.js';

const ACCEPTABLE = /^[A-Za-z0-9._-]{1,64}$/;

/**
 * Gives the request an id (the client's `X-Request-Id` if it is short and plain, else a random one), answers with it, and
 * keeps it at hand in the request context for every log line of what `work` begins; so it does with the request's span.
 */
export function withRequestId(
  request: IncomingMessage,
  response: ServerResponse,
  work: () => void,
  tracer: RequestTracer | null,
): void {
  const given = request.headers['x-request-id'];
  const id = typeof given === 'string' && ACCEPTABLE.test(given) ? given : randomUUID();
  response.setHeader('X-Request-Id', id);
  requestContext.run({ requestId: id, span: tracer?.begin(request, response, id) }, work);
}
