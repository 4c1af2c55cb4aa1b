/** What a refusal or failure is about. The error filter turns each kind into one HTTP status. */
export const ERROR_KINDS = [
  'invalid',
  'unauthenticated',
  'forbidden',
  'not-found',
  'locked',
  'conflict',
  'too-large',
  'unsupported-media-type',
  'gone',
  'rate-limited',
  'unavailable',
  'switched-off',
] as const;

export type ErrorKind = (typeof ERROR_KINDS)[number];

/** What a domain error may carry beside its detail. */
export interface DomainErrorOptions {
  /** One line per problem, fit for a client. */
  readonly errors?: readonly string[];
  /** Whole seconds after which asking again makes sense; sent as `Retry-After`. */
  readonly retryAfterSeconds?: number;
  readonly cause?: unknown;
}

/**
 * Base of every error that a client is meant to see. Its message becomes the body's `detail`, so it
 * must not hold SQL, paths of the server or raw input. Each context subclasses it in its own folder.
 */
export abstract class DomainError extends Error {
  abstract readonly kind: ErrorKind;
  readonly errors?: readonly string[];
  readonly retryAfterSeconds?: number;

  constructor(detail: string, options: DomainErrorOptions = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = new.target.name;
    if (options.errors !== undefined) this.errors = options.errors;
    if (options.retryAfterSeconds !== undefined) this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** The request cannot be understood or breaks a rule of its own shape: 400. */
export class InvalidRequest extends DomainError {
  readonly kind = 'invalid';

  constructor(detail: string, errors?: readonly string[]) {
    super(detail, errors === undefined ? {} : { errors });
  }
}

/** The request body is larger than the service takes: 413, and the connection is closed. */
export class BodyTooLarge extends DomainError {
  readonly kind = 'too-large';

  /** @param maxBytes the largest body that is taken, in bytes */
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
