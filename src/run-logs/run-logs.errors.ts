import { DomainError } from '../common/errors/domain-error.js';

export class AttemptNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(runId: string, attempt: number) {
    super(`Run '${runId}' has no attempt ${attempt}`);
  }
}

/** The cursor was not made for this log, or not at all. */
export class LogCursorInvalid extends DomainError {
  readonly kind = 'invalid';
}

/** The log does not accept the chunk; nothing has changed. */
export class LogChunkRefused extends DomainError {
  readonly kind = 'conflict';
}

/** Too many chunks wait to be stored in this process; nothing has changed. */
export class LogStoreOverloaded extends DomainError {
  readonly kind = 'unavailable';

  constructor() {
    super('Too many chunks of logs are waiting', { retryAfterSeconds: 1 });
  }
}
