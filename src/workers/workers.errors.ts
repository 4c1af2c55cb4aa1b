import { DomainError } from '../http/domain-error.js';

/** A heartbeat that contradicts itself. */
export class InvalidHeartbeat extends DomainError {
  readonly kind = 'invalid';

  constructor(problems: readonly string[]) {
    super('Request validation failed', { errors: problems });
  }
}
