import { IN_EXECUTION_STATES, RUN_STATES, type RunState } from './run-state.js';

/** What makes a run change its state. */
export const TRIGGERS = [
  'CLAIM',
  'STARTED',
  'COMPLETED',
  'FAILED',
  'CANCELLED',
  'RETRIED',
  'RECLAIMED',
  'START TIMEOUT',
] as const;
export type Trigger = (typeof TRIGGERS)[number];

/** What decides between two transitions of one trigger. */
export type Condition =
  | 'retries remain'
  | 'no retries remain'
  | 'forced'
  | 'not forced, retries remain'
  | 'losses remain'
  | 'no losses remain';

/** One row of the table. */
export interface Transition {
  readonly trigger: Trigger;
  readonly from: readonly RunState[];
  readonly when?: Condition;
  readonly to: RunState;
  /** True when the current attempt ends and a new one opens. */
  readonly opensAttempt: boolean;
  /** Why the transition exists, in words for the documentation. */
  readonly reason: string;
}

const LIVE: readonly RunState[] = ['PENDING', ...IN_EXECUTION_STATES];

/**
 * Every way a run changes its state, but for an admin's PATCH, which may set any state.
 * The guard in `decide`, the picture in docs/run-states.md and the test grid are derived from this table.
 */
export const TRANSITIONS: readonly Transition[] = [
  {
    trigger: 'CLAIM',
    from: ['PENDING'],
    to: 'ASSIGNED',
    opensAttempt: false,
    reason: 'the scheduler hands the run to a worker that asked for work',
  },
  {
    trigger: 'STARTED',
    from: IN_EXECUTION_STATES,
    to: 'RUNNING',
    opensAttempt: false,
    reason: 'the worker starts the container; said twice it changes nothing more',
  },
  {
    trigger: 'COMPLETED',
    from: IN_EXECUTION_STATES,
    to: 'COMPLETED',
    opensAttempt: false,
    reason: 'the container ended with exit code 0',
  },
  {
    trigger: 'FAILED',
    from: IN_EXECUTION_STATES,
    when: 'retries remain',
    to: 'PENDING',
    opensAttempt: true,
    reason: 'the attempt failed and the retry policy allows another one',
  },
  {
    trigger: 'FAILED',
    from: IN_EXECUTION_STATES,
    when: 'no retries remain',
    to: 'FAILED',
    opensAttempt: false,
    reason: 'the attempt failed and the retry policy is used up',
  },
  {
    trigger: 'CANCELLED',
    from: LIVE,
    to: 'CANCELLED',
    opensAttempt: false,
    reason: 'somebody asked for it; the worker stops the container when it sees the state',
  },
  {
    trigger: 'RETRIED',
    from: RUN_STATES,
    when: 'forced',
    to: 'PENDING',
    opensAttempt: true,
    reason: 'somebody asked for another attempt, whatever became of the present one',
  },
  {
    trigger: 'RETRIED',
    from: LIVE,
    when: 'not forced, retries remain',
    to: 'PENDING',
    opensAttempt: true,
    reason: 'another attempt within the retry policy',
  },
  {
    trigger: 'RECLAIMED',
    from: IN_EXECUTION_STATES,
    when: 'losses remain',
    to: 'PENDING',
    opensAttempt: true,
    reason: 'the worker is lost; the run goes on elsewhere and keeps its retries',
  },
  {
    trigger: 'RECLAIMED',
    from: IN_EXECUTION_STATES,
    when: 'no losses remain',
    to: 'FAILED',
    opensAttempt: false,
    reason: 'the run has lost more workers than SERVICE_MAX_RECLAIMS allows',
  },
  {
    trigger: 'START TIMEOUT',
    from: ['PENDING', 'ASSIGNED'],
    to: 'FAILED',
    opensAttempt: false,
    reason: 'nobody started the attempt within timeouts.start_within_s; recorded as FAILED',
  },
];

/** The transition out of a state, or undefined when the table has none. */
export function findTransition(from: RunState, trigger: Trigger, when?: Condition): Transition | undefined {
  return TRANSITIONS.find((row) => row.trigger === trigger && row.when === when && row.from.includes(from));
}
