import { DomainError } from '../common/errors/domain-error.js';

export class GroupNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(id: string) {
    super(`Group '${id}' not found`);
  }
}

/** It has ended, or nothing in it is as the request needs it. */
export class GroupRejected extends DomainError {
  readonly kind = 'conflict';
}
