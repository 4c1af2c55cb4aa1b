import { DomainError, OverLimit } from '../common/errors/domain-error.js';

export class WorkerNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(readonly workerId: string) {
    super(`Worker '${workerId}' not found`);
  }
}

/** The worker cannot be removed. */
export class WorkerHoldsRuns extends DomainError {
  readonly kind = 'conflict';

  constructor(workerId: string, count: number) {
    super(`Worker '${workerId}' still holds ${count} run${count === 1 ? '' : 's'}`);
  }
}

/** Too many heartbeats wait for the database; nothing has changed. */
export class TooManyHeartbeats extends DomainError {
  readonly kind = 'unavailable';

  constructor() {
    super('Too many heartbeats are waiting', { retryAfterSeconds: 1 });
  }
}

/** The key has as many workers as it may have, and this one is not registered. */
export function tooManyWorkersOfKey(max: number): OverLimit {
  return new OverLimit(
    `${max} workers of this API key are registered already`,
    'SERVICE_MAX_WORKERS_PER_KEY',
    60,
  );
}

/** The pool is full, and the worker is not registered. */
export function tooManyWorkers(max: number): OverLimit {
  return new OverLimit(`${max} workers are registered already`, 'SERVICE_MAX_WORKERS', 10, 'unavailable');
}
