import { DomainError } from '../common/errors/domain-error.js';

export class DefinitionNotFound extends DomainError {
  readonly kind = 'not-found';

  /** @param nearest a name that was probably meant */
  constructor(id: string, version?: string, nearest?: string) {
    super(
      version === undefined
        ? `OpDefinition '${id}' not found`
        : `OpDefinition '${id}' version '${version}' not found`,
      { errors: nearest === undefined ? [] : [`did you mean '${nearest}'?`] },
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

/** The run cannot be repeated as it is; nothing has changed. */
export class RunNotRepeatable extends DomainError {
  readonly kind = 'conflict';
}
