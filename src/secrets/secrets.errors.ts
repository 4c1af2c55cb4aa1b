import { DomainError } from '../common/errors/domain-error.js';
import type { SecretKind } from '../database/entities/security.entity.js';

/** SERVICE_SECRETS_KEY is unset. */
export class SecretsNotConfigured extends DomainError {
  readonly kind = 'switched-off';

  constructor() {
    super('Secrets are not configured', { errors: ['the operator must set SERVICE_SECRETS_KEY'] });
  }
}

/** No secret has this name. */
export class SecretNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(name: string) {
    super(`Secret '${name}' not found`);
  }
}

/** A run uses a secret for what secrets of another kind are for. */
export class SecretOfOtherKind extends DomainError {
  readonly kind = 'not-found';

  constructor(name: string, kind: SecretKind, expected: SecretKind) {
    super(`Secret '${name}' of kind '${expected}' not found: it is of kind '${kind}'`);
  }
}

/** A secret of kind `map` has a variable that with the prefix of the run is none that a run may set. */
export class SecretVariableRefused extends DomainError {
  readonly kind = 'not-found';

  constructor(secret: string, variable: string) {
    super(`Secret '${secret}' gives the variable '${variable}', which this run may not set`);
  }
}

/** A secret exists, but this process cannot decrypt it. */
export class SecretUndecryptable extends DomainError {
  readonly kind = 'switched-off';

  constructor(
    readonly secret: string,
    readonly reason: string,
  ) {
    super(`Secret '${secret}' cannot be decrypted: ${reason}`);
  }
}
