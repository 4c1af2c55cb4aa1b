import { DomainError } from '../../common/errors/domain-error.js';

/** What a run wants to get is not there. */
export class SourceGone extends DomainError {
  readonly kind = 'conflict';
}

/** The run has no such artifact. */
export class ArtifactNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(name: string, runId: string) {
    super(`Run ${runId} has no artifact '${name}'`);
  }
}

/** Its bytes were removed. */
export class ArtifactRemoved extends DomainError {
  readonly kind = 'gone';

  constructor(name: string, at: Date) {
    super(`Artifact '${name}' was removed at ${at.toISOString()}`);
  }
}

/** Somebody has put another content in its place since the run ended. */
export class ArtifactReplaced extends DomainError {
  readonly kind = 'conflict';

  constructor(name: string) {
    super(`The content of artifact '${name}' is no longer the one that the run left`);
  }
}
