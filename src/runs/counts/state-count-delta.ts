import { isTerminal, type RunState } from '../machine/run-state.js';

const STATE_COLUMN = {
  PENDING: 'pending',
  ASSIGNED: 'assigned',
  RUNNING: 'running',
  CANCELLED: 'cancelled',
  COMPLETED: 'completed',
  FAILED: 'failed',
} as const satisfies Record<RunState, string>;

/** Columns of `run_counts` that count: creations, ends by state, and the change of each state's number of runs. */
export const COUNT_COLUMNS = [
  'created',
  'ended_cancelled',
  'ended_completed',
  'ended_failed',
  ...Object.values(STATE_COLUMN),
] as const;
export type CountColumn = (typeof COUNT_COLUMNS)[number];

/** What a commit adds to the counts of runs. */
export class StateCountDelta {
  readonly #counts = new Map<CountColumn, number>();

  create(runs: number): void {
    this.#add('created', runs);
    this.#add('pending', runs);
  }

  /** Counts runs that changed their state; from a state into itself is no change. */
  move(from: RunState, to: RunState, runs = 1): void {
    if (from === to) return;
    this.remove(from, runs);
    this.#add(STATE_COLUMN[to], runs);
    if (isTerminal(to)) this.#add(`ended_${STATE_COLUMN[to]}`, runs);
  }

  remove(state: RunState, runs: number): void {
    this.#add(STATE_COLUMN[state], -runs);
  }

  get(column: CountColumn): number {
    return this.#counts.get(column) ?? 0;
  }

  get isEmpty(): boolean {
    return [...this.#counts.values()].every((count) => count === 0);
  }

  #add(column: CountColumn, runs: number): void {
    this.#counts.set(column, this.get(column) + runs);
  }
}
