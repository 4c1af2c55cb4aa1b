import type { RunState } from '../../components/state-badge.js';
import { RUN_STATES, isEnded, type Run } from './run-view.js';

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
    ASSIGNED: 'Cancelled; the worker is told not to go on.',
    RUNNING: 'Cancelled; their containers are stopped.',
    COMPLETED: 'Refused: they have completed.',
    FAILED: 'Refused: they have failed.',
    CANCELLED: 'Refused: they are cancelled already.',
  },
  retry: {
    PENDING: 'Another attempt opens in place of the one that waits.',
    ASSIGNED: 'Another attempt opens; the present one is given up.',
    RUNNING: 'Another attempt opens; the present one is given up and its container stopped.',
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
    isRefused: action === 'cancel' && isEnded(state),
    effect: EFFECTS[action][state],
  })).filter((group) => group.runs.length > 0);
}

/** The list in parts of a length. */
export function inParts<T>(items: readonly T[], length: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / length) }, (_, part) =>
    items.slice(part * length, (part + 1) * length),
  );
}
