import { isTerminal, type RunState, type TerminalState } from '../machine/run-state.js';

const STATE_COLUMN = {
  PENDING: 'pending',
  ASSIGNED: 'assigned',
  RUNNING: 'running',
  CANCELLED: 'cancelled',
  COMPLETED: 'completed',
  FAILED: 'failed',
} as const satisfies Record<RunState, string>;

const ENDED_COLUMN = {
  CANCELLED: 'ended_cancelled',
  COMPLETED: 'ended_completed',
  FAILED: 'ended_failed',
} as const satisfies Record<TerminalState, string>;

/** Columns of `run_counts` that count: creations, ends by state, and the change of each state's number of runs. */
export const COUNT_COLUMNS = [
  'created',
  ...Object.values(ENDED_COLUMN),
  ...Object.values(STATE_COLUMN),
] as const;
export type CountColumn = (typeof COUNT_COLUMNS)[number];

/** What a commit adds to the counts of runs. */
export class StateCountDelta {
  readonly counts: Record<CountColumn, number> = {
    created: 0,
    ended_cancelled: 0,
    ended_completed: 0,
    ended_failed: 0,
    pending: 0,
    assigned: 0,
    running: 0,
    cancelled: 0,
    completed: 0,
    failed: 0,
  };

  create(): void {
    this.counts.created += 1;
    this.counts.pending += 1;
  }

  /** Counts runs that changed their state; from a state into itself is no change. */
  move(from: RunState, to: RunState, runs = 1): void {
    if (from === to) return;
    this.counts[STATE_COLUMN[from]] -= runs;
    this.counts[STATE_COLUMN[to]] += runs;
    if (isTerminal(to)) this.counts[ENDED_COLUMN[to]] += runs;
  }

  remove(state: RunState, runs: number): void {
    this.counts[STATE_COLUMN[state]] -= runs;
  }

  get isEmpty(): boolean {
    return Object.values(this.counts).every((count) => count === 0);
  }
}
