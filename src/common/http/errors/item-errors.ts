import { Inject, Injectable, Logger, Optional } from '@nestjs/common';
import { answerToDomainError, FAULT } from './domain-error-answer.js';
import { DomainError } from './domain-error.js';
import type { ErrorBody } from './error-response.js';
import { FailureClassifier } from './failure-classifier.js';

/** The answer to an item of a bulk request that was not carried out: what it would get as a request of its own. */
export interface RefusedItem {
  readonly status: number;
  readonly error: ErrorBody;
}

/** Turns the error of an item into its answer, as the error filter does for whole requests. */
@Injectable()
export class ItemErrors {
  readonly #logger = new Logger('Http');

  constructor(@Optional() @Inject(FailureClassifier) private readonly classifier?: FailureClassifier) {}

  /** The item's answer; an error that is a fault of the service is logged and answered with 500. */
  answerTo(error: unknown): RefusedItem {
    const known = error instanceof DomainError ? error : this.classifier?.classify(error);
    if (known === undefined) this.#logger.error(error);
    const { status, body } = known === undefined ? FAULT : answerToDomainError(known);
    return { status, error: body };
  }
}
