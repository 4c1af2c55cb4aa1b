import { DomainError, InvalidRequest } from '../../common/errors/domain-error.js';
import { VALIDATION_FAILED } from '../../common/http/validation/problems.js';

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

/** No upload in parts of the artifact is open, or it has no such part. */
export class NoOpenUpload extends InvalidRequest {
  constructor(name: string) {
    super(VALIDATION_FAILED, [`first_part: no upload of '${name}' is open that has this part`]);
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
