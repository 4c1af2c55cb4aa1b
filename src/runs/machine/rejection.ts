import type { TerminalState } from './run-state.js';

/** Why the state machine rejects a command. */
export type Rejection =
  | { readonly reason: 'locked'; readonly state: TerminalState }
  | { readonly reason: 'other-worker'; readonly workerId: string }
  | { readonly reason: 'stale-attempt'; readonly attempt: number }
  | { readonly reason: 'not-in-execution' }
  | { readonly reason: 'not-pending' }
  | { readonly reason: 'nothing-due' }
  | { readonly reason: 'retries-used-up' }
  | { readonly reason: 'attempt-limit' };

/** The error detail of a rejected command. */
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
  }
}
