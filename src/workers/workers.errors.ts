import { DomainError } from '../common/http/errors/domain-error.js';

/** A heartbeat that contradicts itself. */
export class InvalidHeartbeat extends DomainError {
  readonly kind = 'invalid';

  constructor(problems: readonly string[]) {
    super('Request validation failed', { errors: problems });
  }
}

/** No worker with this id has reported, or it was silent for so long that it was forgotten. */
export class WorkerNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(readonly workerId: string) {
    super(`Worker '${workerId}' not found`);
  }
}

/** More heartbeats wait for the database than this process takes; nothing has changed. */
export class TooManyHeartbeats extends DomainError {
  readonly kind = 'unavailable';

  constructor() {
    super('Too many heartbeats are waiting', { retryAfterSeconds: 1 });
  }
}
