import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http';
import { HttpException, Logger } from '@nestjs/common';
import { isBadValue, isDatabaseUnavailable, isRetryable } from '../../../database/failover/unavailable.js';
import { DatabaseUnavailable, DomainError, ERROR_STATUS, InvalidRequest } from '../../errors/domain-error.js';
import { bodyStates } from '../request/body-reader.js';

/** The body of every error response. */
export interface ErrorBody {
  readonly detail: string;
  readonly errors?: readonly string[];
}

export interface ErrorResponse {
  readonly status: number;
  readonly body: ErrorBody;
  readonly headers?: Readonly<Record<string, string>>;
  /** Close the connection, because the rest of the request is not read. */
  readonly close?: boolean;
}

/** The error of one item of a bulk request: the response that it would get as a request of its own. */
export interface ItemError {
  readonly status: number;
  readonly error: ErrorBody;
}

/** The answer to a fault of the service. */
export const INTERNAL_ERROR: ErrorResponse = { status: 500, body: { detail: 'Internal server error' } };
const NOT_FOUND: ErrorResponse = { status: 404, body: { detail: 'Not found' } };

const logger = new Logger('Http');

/**
 * Turns an error into a response: domain errors by their kind, HttpExceptions by their status and text, failures of the
 * database as 503 or 400, and every other error as 500 without its text.
 */
export function toErrorResponse(error: unknown, requestId?: string): ErrorResponse {
  if (error instanceof DomainError) return fromDomainError(error);
  if (error instanceof HttpException) return fromHttpException(error);
  if (isHttpError(error)) return fromHttpException(new HttpException(error.message, error.statusCode));
  if (isDatabaseUnavailable(error) || isRetryable(error)) {
    logger.debug('the database failed', { error, requestId });
    return fromDomainError(new DatabaseUnavailable(error));
  }
  if (isBadValue(error)) {
    // Validation should have refused the value.
    logger.warn('the database refused a value that passed validation', { error, requestId });
    return fromDomainError(new InvalidRequest('The request holds a value that cannot be stored'));
  }
  return INTERNAL_ERROR;
}

/** Turns the error of an item of a bulk request into its result; logs faults of the service. */
export function toItemError(error: unknown): ItemError {
  const { status, body } = toErrorResponse(error);
  if (status === INTERNAL_ERROR.status) logger.error(error);
  return { status, error: body };
}

function fromDomainError({
  kind,
  message: detail,
  errors = [],
  retryAfterSeconds,
}: DomainError): ErrorResponse {
  const retryAfter = retryAfterSeconds ?? (kind === 'unavailable' || kind === 'rate-limited' ? 1 : undefined);
  return {
    status: ERROR_STATUS[kind],
    body: errors.length === 0 ? { detail } : { detail, errors },
    headers: {
      ...(retryAfter === undefined ? {} : { 'Retry-After': String(Math.max(1, Math.ceil(retryAfter))) }),
      ...(kind === 'unauthenticated' ? { 'WWW-Authenticate': 'Bearer realm="longshore"' } : {}),
    },
    close: kind === 'too-large',
  };
}

function fromHttpException(exception: HttpException): ErrorResponse {
  const { cause } = exception;
  // Express reports a path that cannot be decoded as 400; no route has such a path.
  if (cause instanceof URIError) return NOT_FOUND;
  const status = exception.getStatus();
  if (!Number.isInteger(status) || status < 200 || status > 599) return INTERNAL_ERROR;
  const phrase = STATUS_CODES[status] ?? 'Error';
  const detail = phrase.charAt(0) + phrase.slice(1).toLowerCase();
  // The message of a system error names files and addresses of the server.
  const isSystemError = cause instanceof Error && 'syscall' in cause;
  return { status, body: { detail, ...(isSystemError ? {} : readBody(exception.getResponse())) } };
}

/** What the response of an HttpException says, as far as it fits into an error body. */
function readBody(response: string | object): Partial<ErrorBody> {
  if (typeof response === 'string') return toBody(response);
  // As in Nest, the message of an Error that was given as the response is not sent.
  if (response instanceof Error) return {};
  const { detail, message, error, errors }: Record<string, unknown> = { ...response };
  return toBody(
    [detail, message, error].find((value) => typeof value === 'string'),
    errors ?? message,
  );
}

function toBody(detail: unknown, lines?: unknown): Partial<ErrorBody> {
  return {
    ...(typeof detail === 'string' && detail !== '' ? { detail } : {}),
    ...(Array.isArray(lines) && lines.length > 0 ? { errors: lines.map(String) } : {}),
  };
}

/** An error of the package http-errors whose text is meant for the client. */
function isHttpError(error: unknown): error is Error & { readonly statusCode: number } {
  return (
    error instanceof Error &&
    'expose' in error &&
    error.expose === true &&
    'statusCode' in error &&
    typeof error.statusCode === 'number'
  );
}

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
  const isBodyToCome = !request.complete && bodyStates.get(request) !== 'held-back';
  if (error.close !== true || !isBodyToCome) response.end(text);
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
