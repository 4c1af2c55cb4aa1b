import { DomainError } from '../../common/errors/domain-error.js';

/** No bulk operation has this id. */
export class BulkOperationNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(id: string) {
    super(`Bulk operation '${id}' not found`);
  }
}

/** The filter matches another number of runs than the caller expects; nothing has changed. */
export class UnexpectedNumberOfRuns extends DomainError {
  readonly kind = 'conflict';

  constructor(matched: number, expected: number) {
    super(`The filter matches ${matched} runs, not ${expected}`);
  }
}

/** The filter matches more runs than one operation may change; nothing has changed. */
export class TooManyRuns extends DomainError {
  readonly kind = 'invalid';

  constructor(most: number) {
    super(
      `The filter matches more than ${most} runs: narrow it, for example by created[gte] and created[lt]`,
    );
  }
}
