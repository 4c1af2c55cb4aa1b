import type { IncomingMessage, ServerResponse } from 'node:http';
import { isBodyHeldBack } from '../request/body-reader.js';
import type { ErrorResponse } from './error-response.js';

export const JSON_TYPE = 'application/json; charset=utf-8';

/** How long, and how much, the service reads on after it refused a body before its end. */
const LINGER_MS = 2000;
const LINGER_BYTES = 32 * 1024 * 1024;

/** Sends an error response. No cache keeps it: browsers would keep a 410 for ever. */
export function sendError(request: IncomingMessage, response: ServerResponse, error: ErrorResponse): void {
  const text = JSON.stringify(error.body);
  response.statusCode = error.status;
  for (const [name, value] of Object.entries(error.headers ?? {})) response.setHeader(name, value);
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('Content-Type', JSON_TYPE);
  response.setHeader('Content-Length', Buffer.byteLength(text));
  if (error.close === true) response.setHeader('Connection', 'close');
  if (error.close !== true || request.complete || isBodyHeldBack(request)) response.end(text);
  else endAfterBody(request, response, text);
}

/**
 * Sends the response at once but drops the rest of the body before it closes the connection: if unread bytes were left,
 * the kernel would reset the connection, and the client would lose the response.
 */
function endAfterBody(request: IncomingMessage, response: ServerResponse, text: string): void {
  let dropped = 0;
  const end = (): void => {
    clearTimeout(timer);
    request.off('data', count).off('end', end).off('close', end);
    response.end();
  };
  const count = (chunk: Uint8Array): void => {
    dropped += chunk.length;
    if (dropped > LINGER_BYTES) end();
  };
  const timer = setTimeout(end, LINGER_MS);
  response.write(text);
  request.on('data', count).on('end', end).on('close', end).resume();
}
