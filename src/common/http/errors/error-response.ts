import type { IncomingMessage, ServerResponse } from 'node:http';
import { isBodyHeldBack } from '../request/body-reader.js';

/** The body of every error answer. */
export interface ErrorBody {
  readonly detail: string;
  readonly errors?: readonly string[];
}

/** What an error answer consists of. */
export interface ErrorAnswer {
  readonly status: number;
  readonly body: ErrorBody;
  readonly headers?: Readonly<Record<string, string>>;
  /** End the connection, because the rest of the request is not worth reading. */
  readonly close?: boolean;
}

export const JSON_TYPE = 'application/json; charset=utf-8';

// How long, and how much, the service listens on after it refused a body in mid-stream.
const LINGER_MS = 2000;
const LINGER_BYTES = 32 * 1024 * 1024;

/** Sends an error answer, which no cache keeps: browsers would keep a 410 for ever, whatever the next request asks for. */
export function sendError(request: IncomingMessage, response: ServerResponse, answer: ErrorAnswer): void {
  const text = JSON.stringify(answer.body);
  response.statusCode = answer.status;
  for (const [name, value] of Object.entries(answer.headers ?? {})) response.setHeader(name, value);
  response.setHeader('Cache-Control', 'no-store');
  response.setHeader('Content-Type', JSON_TYPE);
  response.setHeader('Content-Length', Buffer.byteLength(text));
  if (answer.close !== true) {
    response.end(text);
    return;
  }
  response.setHeader('Connection', 'close');
  if (request.complete || isBodyHeldBack(request)) response.end(text);
  else endAfterBody(request, response, text);
}

/**
 * Sends the whole answer at once but keeps the connection for a moment, dropping what still arrives:
 * closing on unread bytes would make the kernel reset the connection, and the client would lose the answer.
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
