import { isTerminal, type RunState, type TerminalState } from '../machine/run-state.js';

/** By how much the number of runs in each state grows or, below 0, shrinks. */
export type StateDeltas = Readonly<Record<RunState, number>>;

/** Counts what a commit does to runs: how many it creates and ends, and how many each state gains or loses. */
export class StateCountDelta {
  readonly #deltas: Record<RunState, number> = {
    PENDING: 0,
    ASSIGNED: 0,
    RUNNING: 0,
    CANCELLED: 0,
    COMPLETED: 0,
    FAILED: 0,
  };
  readonly #ended: Record<TerminalState, number> = { CANCELLED: 0, COMPLETED: 0, FAILED: 0 };
  #created = 0;

  /** Notes a run that begins to be. */
  create(): void {
    this.#created += 1;
    this.#deltas.PENDING += 1;
  }

  /** Notes runs that went from one state into another; from a state into itself is no change. */
  move(from: RunState, to: RunState, runs = 1): void {
    if (from === to) return;
    this.#deltas[from] -= runs;
    this.#deltas[to] += runs;
    if (isTerminal(to)) this.#ended[to] += runs;
  }

  /** Notes runs that are no more. */
  remove(state: RunState, runs = 1): void {
    this.#deltas[state] -= runs;
  }

  /** Runs that were created. */
  get created(): number {
    return this.#created;
  }

  /** How often runs came into each state that ends them. */
  get ended(): Readonly<Record<TerminalState, number>> {
    return this.#ended;
  }

  get deltas(): StateDeltas {
    return this.#deltas;
  }

  /** True when there is nothing to write. */
  get isEmpty(): boolean {
    return [this.#created, ...Object.values(this.#ended), ...Object.values(this.#deltas)].every(
      (count) => count === 0,
    );
  }
}
