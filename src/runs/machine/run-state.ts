/** The states of a run and of each of its attempts. */
export const RUN_STATES = ['PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED'] as const;
export type RunState = (typeof RUN_STATES)[number];

/** States that lock a run: only a forced retry or an admin's PATCH leaves them. */
export const TERMINAL_STATES = ['CANCELLED', 'COMPLETED', 'FAILED'] as const satisfies readonly RunState[];
export type TerminalState = (typeof TERMINAL_STATES)[number];

/** States in which a run is assigned to a worker. */
export const IN_EXECUTION_STATES = ['ASSIGNED', 'RUNNING'] as const satisfies readonly RunState[];

const TERMINAL: ReadonlySet<RunState> = new Set(TERMINAL_STATES);
const IN_EXECUTION: ReadonlySet<RunState> = new Set(IN_EXECUTION_STATES);
const KNOWN: ReadonlySet<string> = new Set(RUN_STATES);

export function isTerminal(state: RunState): state is TerminalState {
  return TERMINAL.has(state);
}

export function isInExecution(state: RunState): boolean {
  return IN_EXECUTION.has(state);
}

export function isRunState(text: string): text is RunState {
  return KNOWN.has(text);
}
