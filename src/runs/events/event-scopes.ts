import type { Caller } from '../../auth/access.js';
import { MissingScope } from '../../auth/auth.errors.js';
import { eventType } from '../machine/event-types.js';
import type { Reporter } from '../machine/run-command.js';

/**
 * Refuses an event that the caller's scopes do not permit. A worker may also report events of clients, as the worker and attempt
 * that hold the run.
 * @throws MissingScope
 */
export function assertMayReport({ scopes }: Caller, type: string, { workerId, attempt }: Reporter): void {
  const scope = eventType(type)?.scope;
  if (scope === undefined || scopes.has(scope) || scopes.has('admin')) return;
  // The state machine checks that the given worker holds the run in the given attempt.
  if (scope === 'worker' || workerId === undefined || attempt === undefined) throw new MissingScope(scope);
}
