import type { Caller } from '../../auth/access.js';
import { MissingScope } from '../../auth/auth.errors.js';
import type { Reporter } from '../machine/run-command.js';

/** Events that only workers report. */
const OF_WORKERS: ReadonlySet<string> = new Set(['STARTED', 'COMPLETED', 'FAILED']);

/** Events of clients. A worker may report them of a run that it holds. */
const OF_CLIENTS: ReadonlySet<string> = new Set(['CANCELLED', 'RETRIED']);

/**
 * Refuses an event that the caller's scopes do not permit: `worker` STARTED, COMPLETED and FAILED, and as the worker and
 * attempt that hold the run also CANCELLED and RETRIED; `client` CANCELLED and RETRIED; both all other types.
 * @throws MissingScope
 */
export function assertMayReport({ scopes }: Caller, type: string, { workerId, attempt }: Reporter): void {
  if (scopes.has('admin')) return;
  if (OF_WORKERS.has(type) && !scopes.has('worker')) throw new MissingScope('worker');
  if (!OF_CLIENTS.has(type) || scopes.has('client')) return;
  // The state machine checks that the given worker holds the run in the given attempt.
  if (workerId === undefined || attempt === undefined) throw new MissingScope('client');
}
