import { DomainError } from '../http/domain-error.js';
import type { Scope } from './access.js';

/** The request carries no API key. */
export class MissingApiKey extends DomainError {
  readonly kind = 'unauthenticated';

  constructor() {
    super('Missing API key');
  }
}

/** The API key is not one of ours. */
export class InvalidApiKey extends DomainError {
  readonly kind = 'unauthenticated';

  constructor() {
    super('Invalid API key');
  }
}

/** The API key is good, but not for this. */
export class MissingScope extends DomainError {
  readonly kind = 'forbidden';

  constructor(scope: Scope) {
    super(`API key lacks scope '${scope}'`);
  }
}
