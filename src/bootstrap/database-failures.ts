import { Injectable } from '@nestjs/common';
import { isBadValue, isDatabaseUnavailable, isRetryable } from '../database/unavailable.js';
import { DomainError, InvalidRequest } from '../common/http/errors/domain-error.js';
import { FailureClassifier } from '../common/http/errors/failure-classifier.js';
import { Log } from '../common/logging/logger.js';

/** The database is away or cannot do its work now. */
export class DatabaseUnavailable extends DomainError {
  readonly kind = 'unavailable';

  constructor(cause: unknown) {
    super('The database is not available', { retryAfterSeconds: 1, cause });
  }
}

/** Tells clients what a failure of the database means to them. */
@Injectable()
export class DatabaseFailures implements FailureClassifier {
  constructor(private readonly log: Log) {}

  classify(error: unknown): DomainError | undefined {
    if (isDatabaseUnavailable(error) || isRetryable(error)) return new DatabaseUnavailable(error);
    if (!isBadValue(error)) return undefined;
    // The edge is meant to have refused it: worth looking at, whatever the client is told.
    this.log.warn('the database refused a value that the edge let through', { error });
    return new InvalidRequest('The request holds a value that cannot be stored');
  }
}
