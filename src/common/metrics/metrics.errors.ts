import { DomainError } from '../http/errors/domain-error.js';

/** The counts of all server processes cannot be had now, and those of one alone would mislead: 503. */
export class MetricsUnavailable extends DomainError {
  readonly kind = 'unavailable';

  constructor(cause?: unknown) {
    super('Metrics are not available now', { retryAfterSeconds: 1, cause });
  }
}
