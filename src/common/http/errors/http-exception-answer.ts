import { STATUS_CODES } from 'node:http';
import type { HttpException } from '@nestjs/common';
import { FAULT } from './domain-error-answer.js';
import type { ErrorAnswer, ErrorBody } from './error-response.js';

const NOT_FOUND: ErrorAnswer = { status: 404, body: { detail: 'Not found' } };

/** The answer to an HttpException: its status, and its text as the service's error body. */
export function answerToHttpException(exception: HttpException): ErrorAnswer {
  const { cause } = exception;
  // Express reports a path that cannot be decoded as 400; no route has such a path.
  if (cause instanceof URIError) return NOT_FOUND;
  const status = exception.getStatus();
  if (!Number.isInteger(status) || status < 200 || status > 599) return FAULT;
  // The message of a system error names files and addresses of the server.
  const body = cause instanceof Error && 'syscall' in cause ? {} : readBody(exception.getResponse());
  return { status, body: { detail: phraseOf(status), ...body } };
}

/** What the response of an exception says, in the service's error body. */
function readBody(response: string | object): Partial<ErrorBody> {
  if (typeof response === 'string') return bodyOf(response);
  // As in Nest, the message of an Error that was given as the response is not sent.
  if (response instanceof Error) return {};
  const { detail, message, error, errors }: Record<string, unknown> = { ...response };
  const text = [detail, message, error].find((value) => typeof value === 'string');
  return bodyOf(text, errors ?? message);
}

function bodyOf(detail: unknown, lines?: unknown): Partial<ErrorBody> {
  return {
    ...(typeof detail === 'string' && detail !== '' ? { detail } : {}),
    ...(Array.isArray(lines) && lines.length > 0 ? { errors: lines.map(String) } : {}),
  };
}

function phraseOf(status: number): string {
  const phrase = STATUS_CODES[status] ?? 'Error';
  return phrase.charAt(0) + phrase.slice(1).toLowerCase();
}
