import { DomainError } from '../common/http/errors/domain-error.js';

/** There is no such definition, or not in this version. */
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

/** The inputs are not what the definition asks for; one line per input. */
export class InvalidInputs extends DomainError {
  readonly kind = 'invalid';

  constructor(problems: readonly string[]) {
    super('Invalid inputs', { errors: problems });
  }
}
