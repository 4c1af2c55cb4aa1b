import { DomainError, type ErrorKind } from '../common/errors/domain-error.js';
import { MAX_LABELS } from './machine/run.js';
import type { Rejection } from './machine/run-command.js';
import type { RunState } from './machine/run-state.js';

/** No run has this id. */
export class RunNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(readonly runId: string) {
    super(`OpRun '${runId}' not found`);
  }
}

/** A run is to wait for one that there is not. */
export class UnknownDependency extends DomainError {
  readonly kind = 'invalid';

  constructor(id: string, isGroup: boolean) {
    super('Unknown dependency', { errors: [`depends_on: there is no ${isGroup ? 'group' : 'run'} '${id}'`] });
  }
}

/** SERVICE_SECRETS_KEY is unset. */
export class SecretsNotConfigured extends DomainError {
  readonly kind = 'switched-off';

  constructor() {
    super('Secrets are not configured', { errors: ['the operator must set SERVICE_SECRETS_KEY'] });
  }
}

const KIND_OF_REJECTION = {
  locked: 'locked',
  'other-worker': 'conflict',
  'stale-attempt': 'conflict',
  'not-in-execution': 'conflict',
  'not-pending': 'conflict',
  'nothing-due': 'conflict',
  'retries-used-up': 'invalid',
  'attempt-limit': 'invalid',
  'too-many-labels': 'invalid',
} as const satisfies Record<Rejection['reason'], ErrorKind>;

/** All reasons for which a run rejects a command. */
export const REJECTION_REASONS: readonly string[] = Object.keys(KIND_OF_REJECTION);

/** The run does not accept the command; nothing has changed. */
export class RunRejected extends DomainError {
  readonly kind: ErrorKind;

  constructor(
    readonly runId: string,
    readonly rejection: Rejection,
  ) {
    super(rejectionDetail(runId, rejection));
    this.kind = KIND_OF_REJECTION[rejection.reason];
  }
}

/** The command was for runs in another state; nothing has changed. */
export class RunInOtherState extends DomainError {
  readonly kind = 'conflict';

  constructor(
    readonly runId: string,
    expected: readonly RunState[],
    state: RunState,
  ) {
    super(`Run is no longer ${expected.join(' or ')}, but ${state}`);
  }
}

/** The `on_limit` of the run would cancel too many others; nothing has changed. */
export class TooManyToCancel extends DomainError {
  readonly kind = 'conflict';

  constructor(reason: string, most: number) {
    super(`${reason}: a new run cancels at most ${most}`);
  }
}

/** Too many commands wait for the journal; nothing has changed. */
export class JournalOverloaded extends DomainError {
  readonly kind = 'unavailable';

  /** @param setting the setting whose limit is reached; undefined: a commit takes too long */
  constructor(setting?: string) {
    const cause = setting === undefined ? '' : `: ${setting} is reached`;
    super(`Too many requests are waiting${cause}`, { retryAfterSeconds: 1 });
  }
}

/** Too many commands of the same API key wait for the journal; nothing has changed. */
export class TooManyWaiting extends DomainError {
  readonly kind = 'rate-limited';

  /** @param setting the setting whose limit is reached */
  constructor(setting = '') {
    super(`Too many requests of this API key are waiting: ${setting} is reached`, { retryAfterSeconds: 1 });
  }
}

/** An earlier command of the same request failed; nothing has changed. */
export class PrecedingEventFailed extends DomainError {
  readonly kind = 'unavailable';

  constructor(readonly runId: string) {
    super(`An earlier event of run '${runId}' could not be recorded`, { retryAfterSeconds: 1 });
  }
}

/** The idempotency key was used with another request; nothing has changed. */
export class IdempotencyMismatch extends DomainError {
  readonly kind = 'conflict';

  constructor() {
    super('Idempotency-Key was used with another request body');
  }
}

export function rejectionDetail(runId: string, rejection: Rejection): string {
  switch (rejection.reason) {
    case 'locked':
      return `Run is already in terminal state ${rejection.state}`;
    case 'other-worker':
      return `Run '${runId}' is not assigned to worker '${rejection.workerId}'`;
    case 'stale-attempt':
      return `Run '${runId}' attempt ${rejection.attempt} is not current`;
    case 'not-in-execution':
      return `Run '${runId}' is not assigned to a worker`;
    case 'not-pending':
      return `Run '${runId}' is not pending`;
    case 'nothing-due':
      return `Run '${runId}' has no timer that is due`;
    case 'retries-used-up':
      return `Run '${runId}' has no retries left`;
    case 'attempt-limit':
      return `Run '${runId}' has reached the limit of 1000 attempts`;
    case 'too-many-labels':
      return `Run '${runId}' would have more than ${MAX_LABELS} labels`;
  }
}

/** No pause has this name. */
export class PauseNotFound extends DomainError {
  readonly kind = 'not-found';

  constructor(name: string) {
    super(`Pause '${name}' not found`);
  }
}

/** There are as many pauses as there may be. */
export class TooManyPauses extends DomainError {
  readonly kind = 'conflict';

  constructor(max: number) {
    super(`There are ${max} pauses, which is the most`);
  }
}
