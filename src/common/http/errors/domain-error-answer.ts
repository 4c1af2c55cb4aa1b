import { assertNever } from '@longshore/common/json/assert-never';
import type { DomainError, ErrorKind } from './domain-error.js';
import type { ErrorAnswer } from './error-response.js';

/** What a fault of the service is answered with. */
export const FAULT: ErrorAnswer = { status: 500, body: { detail: 'Internal server error' } };

/** What a domain error is answered with: status, body and headers. */
export function answerToDomainError(error: DomainError): ErrorAnswer {
  const { message: detail, errors } = error;
  const body = errors === undefined || errors.length === 0 ? { detail } : { detail, errors };
  return { status: statusOf(error.kind), body, headers: headersOf(error), close: error.kind === 'too-large' };
}

function statusOf(kind: ErrorKind): number {
  switch (kind) {
    case 'invalid':
    case 'locked':
      return 400;
    case 'unauthenticated':
      return 401;
    case 'forbidden':
      return 403;
    case 'not-found':
      return 404;
    case 'conflict':
      return 409;
    case 'gone':
      return 410;
    case 'too-large':
      return 413;
    case 'unsupported-media-type':
      return 415;
    case 'rate-limited':
      return 429;
    case 'unavailable':
    // Without Retry-After: asking again does not help until somebody changes the settings.
    case 'switched-off':
      return 503;
    default:
      return assertNever(kind);
  }
}

function headersOf({ kind, retryAfterSeconds }: DomainError): Record<string, string> {
  const seconds = retryAfterSeconds ?? (kind === 'unavailable' || kind === 'rate-limited' ? 1 : undefined);
  return {
    ...(seconds === undefined ? {} : { 'Retry-After': String(Math.max(1, Math.ceil(seconds))) }),
    ...(kind === 'unauthenticated' ? { 'WWW-Authenticate': 'Bearer realm="longshore"' } : {}),
  };
}
