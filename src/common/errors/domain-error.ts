/** The kinds of errors that clients see, each with its HTTP status. */
export const ERROR_STATUS = {
  invalid: 400,
  locked: 400,
  unauthenticated: 401,
  forbidden: 403,
  'not-found': 404,
  conflict: 409,
  gone: 410,
  'precondition-failed': 412,
  'too-large': 413,
  'unsupported-media-type': 415,
  'rate-limited': 429,
  unavailable: 503,
  /** Sent without `Retry-After`: only a change of the settings helps. */
  'switched-off': 503,
  'insufficient-storage': 507,
} as const;

export type ErrorKind = keyof typeof ERROR_STATUS;

export interface DomainErrorOptions {
  /** One line per problem, fit for a client. */
  readonly errors?: readonly string[];
  /** Sent as `Retry-After`, in seconds. */
  readonly retryAfterSeconds?: number;
  /** Setting of the limit that the request exceeds; counted in the metric `longshore_refused_total`. */
  readonly limit?: string;
  readonly cause?: unknown;
}

/**
 * Base of every error that clients see; each context declares its own. The message becomes the `detail` of the response:
 * it must not hold SQL, paths of the server or raw input.
 */
export abstract class DomainError extends Error {
  abstract readonly kind: ErrorKind;
  readonly errors?: readonly string[];
  readonly retryAfterSeconds?: number;
  readonly limit?: string;

  constructor(detail: string, { errors, retryAfterSeconds, limit, cause }: DomainErrorOptions = {}) {
    super(detail, cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    if (errors !== undefined) this.errors = errors;
    if (retryAfterSeconds !== undefined) this.retryAfterSeconds = retryAfterSeconds;
    if (limit !== undefined) this.limit = limit;
  }
}

/** Characters of a reason that are kept. */
const MAX_REASON = 2_000;

/** Whether the same request fails again, and not the service. */
export function isLasting(error: unknown): error is DomainError {
  return error instanceof DomainError && error.kind !== 'unavailable' && error.kind !== 'rate-limited';
}

/** The text that a client would get, to be kept. */
export function reasonOf({ message, errors = [] }: DomainError): string {
  return [message, ...errors].join(': ').slice(0, MAX_REASON);
}

/** One line for each problem, after the part of the request that has it. */
export function linesOf({ message, errors = [], kind }: DomainError, place: string): string[] {
  const lines = kind === 'invalid' && errors.length > 0 ? errors : [message, ...errors];
  return lines.map((line) => `${place}: ${line}`);
}

/** The request breaks a rule of its own shape: 400. */
export class InvalidRequest extends DomainError {
  readonly kind = 'invalid';

  constructor(detail: string, errors?: readonly string[]) {
    super(detail, errors === undefined ? {} : { errors });
  }
}

/** The request body exceeds the limit: 413, and the connection is closed. */
export class BodyTooLarge extends DomainError {
  readonly kind = 'too-large';

  constructor(readonly maxBytes: number) {
    super(`Request body is larger than ${maxBytes} bytes`);
  }
}

/** The request body is not plain UTF-8 JSON: 415. */
export class UnsupportedMediaType extends DomainError {
  readonly kind = 'unsupported-media-type';

  constructor(detail = 'Request body must be application/json in UTF-8') {
    super(detail);
  }
}

/** No such route or address: 404. */
export class NotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(detail = 'Not found') {
    super(detail);
  }
}

/** The request exceeds the limit of a setting: 429, or 503 where all callers share the limit. */
export class OverLimit extends DomainError {
  /** @param limit the setting; the message ends with it */
  constructor(
    detail: string,
    limit: string,
    retryAfterSeconds: number,
    readonly kind: 'rate-limited' | 'unavailable' = 'rate-limited',
  ) {
    super(`${detail} (${limit})`, { retryAfterSeconds, limit });
  }
}

/** The database is unreachable or cannot do its work now: 503. */
export class DatabaseUnavailable extends DomainError {
  readonly kind = 'unavailable';

  constructor(cause: unknown) {
    super('The database is not available', { retryAfterSeconds: 1, cause });
  }
}

/** SERVICE_FILES_URL is `none`. */
export class FilesNotConfigured extends DomainError {
  readonly kind = 'switched-off';

  constructor() {
    super('Files are not configured');
  }
}
