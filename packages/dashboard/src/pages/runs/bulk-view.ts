import { RUN_STATES, TERMINAL_STATES, type RunState } from '@longshore/client/constants';
import type { Run } from './run-view.js';

/** What can be done to many runs. */
export type BulkAction = 'cancel' | 'retry';

/** Runs of one state, and what the action means to them. */
export interface BulkGroup {
  readonly state: RunState;
  readonly runs: readonly Run[];
  readonly isRefused: boolean;
  readonly effect: string;
}

const EFFECTS: Readonly<Record<BulkAction, Readonly<Record<RunState, string>>>> = {
  cancel: {
    PENDING: 'Cancelled before they start.',
    ASSIGNED: 'Cancelled; the worker does not start them.',
    RUNNING: 'Cancelled; their containers are stopped.',
    COMPLETED: 'Refused: they have completed.',
    FAILED: 'Refused: they have failed.',
    CANCELLED: 'Refused: already cancelled.',
  },
  retry: {
    PENDING: 'Another attempt replaces the pending one.',
    ASSIGNED: 'Another attempt starts; the current one is abandoned.',
    RUNNING: 'Another attempt starts; the current one is abandoned and its container stopped.',
    COMPLETED: 'Run again, although they have completed; outputs are replaced.',
    FAILED: 'Another attempt opens.',
    CANCELLED: 'Another attempt opens.',
  },
};

/** The runs by state, and what will become of them as far as their states say. */
export function groupRuns(action: BulkAction, runs: readonly Run[]): readonly BulkGroup[] {
  return RUN_STATES.map((state) => ({
    state,
    runs: runs.filter((run) => run.state === state),
    isRefused: action === 'cancel' && TERMINAL_STATES.has(state),
    effect: EFFECTS[action][state],
  })).filter((group) => group.runs.length > 0);
}

/** The list in parts of a length. */
export function inParts<T>(items: readonly T[], length: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / length) }, (_, part) =>
    items.slice(part * length, (part + 1) * length),
  );
}
