import { DomainError } from '../common/errors/domain-error.js';

export class ScheduleNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(id: string, nearest?: string) {
    super(`Schedule '${id}' not found${nearest === undefined ? '' : `: did you mean '${nearest}'?`}`);
  }
}

/** It was changed again and again while a request was carried out. */
export class ScheduleChanges extends DomainError {
  readonly kind = 'unavailable';

  constructor(id: string) {
    super(`Schedule '${id}' has changed again and again: try later`, { retryAfterSeconds: 1 });
  }
}
