import { DomainError } from '../common/http/errors/domain-error.js';

export class WorkerNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(readonly workerId: string) {
    super(`Worker '${workerId}' not found`);
  }
}

/** Too many heartbeats wait for the database; nothing has changed. */
export class TooManyHeartbeats extends DomainError {
  readonly kind = 'unavailable';

  constructor() {
    super('Too many heartbeats are waiting', { retryAfterSeconds: 1 });
  }
}
