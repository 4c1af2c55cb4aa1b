import { DomainError } from '../common/errors/domain-error.js';

/** Only a change of the settings, or of the stored definitions, helps. */
const RETRY_AFTER_S = 3600;

export class DefinitionNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(id: string, version?: string) {
    super(
      version === undefined
        ? `OpDefinition '${id}' not found`
        : `OpDefinition '${id}' version '${version}' not found`,
    );
  }
}

/** The inputs do not fit the definition; one line for each input. */
export class InvalidInputs extends DomainError {
  readonly kind = 'invalid';

  constructor(problems: readonly string[]) {
    super('Invalid inputs', { errors: problems });
  }
}

/** A version has more bytes than the setting SERVICE_MAX_DEFINITION_BYTES allows. */
export class DefinitionTooLarge extends DomainError {
  readonly kind = 'rate-limited';

  constructor(maxBytes: number) {
    super(`The definition is larger than ${maxBytes} bytes (SERVICE_MAX_DEFINITION_BYTES)`, {
      retryAfterSeconds: RETRY_AFTER_S,
      limit: 'SERVICE_MAX_DEFINITION_BYTES',
    });
  }
}

/** A definition has as many versions as the setting SERVICE_MAX_DEFINITION_VERSIONS allows. */
export class TooManyVersions extends DomainError {
  readonly kind = 'rate-limited';

  constructor(id: string, max: number) {
    super(`OpDefinition '${id}' has ${max} versions already (SERVICE_MAX_DEFINITION_VERSIONS)`, {
      retryAfterSeconds: RETRY_AFTER_S,
      limit: 'SERVICE_MAX_DEFINITION_VERSIONS',
    });
  }
}
