import { DomainError } from '../common/http/errors/domain-error.js';

/** The run has no such attempt. */
export class AttemptNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(runId: string, attempt: number) {
    super(`OpRun '${runId}' has no attempt ${attempt}`);
  }
}

/** The cursor was not made by this log, or not by any. */
export class LogCursorInvalid extends DomainError {
  readonly kind = 'invalid';
}

/** The chunk is not one that the log takes now; nothing has changed. */
export class LogChunkRefused extends DomainError {
  readonly kind = 'conflict';
}

/** More waits to be stored than this process holds; nothing has changed. */
export class LogStoreOverloaded extends DomainError {
  readonly kind = 'unavailable';

  constructor() {
    super('Too many chunks of logs are waiting', { retryAfterSeconds: 1 });
  }
}
