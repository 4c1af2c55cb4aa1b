import type { Schemas } from '../../api/use-api.js';
import type { RunState } from '../../components/values/state-badge.js';

/** A run as the API has it. */
export type Run = Schemas['OpRun'];

/** The states in the order of a run's life. */
export const RUN_STATES: readonly RunState[] = [
  'PENDING',
  'ASSIGNED',
  'RUNNING',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
];

const ENDED: ReadonlySet<RunState> = new Set<RunState>(['COMPLETED', 'FAILED', 'CANCELLED']);

/** Whether the state is a final one: only another attempt leads out of it. */
export function isEnded(state: RunState): boolean {
  return ENDED.has(state);
}
