import { IN_EXECUTION_STATES, RUN_STATES, type RunState } from './run-state.js';

export type Trigger =
  | 'CLAIM'
  | 'STARTED'
  | 'COMPLETED'
  | 'FAILED'
  | 'CANCELLED'
  | 'RETRIED'
  | 'RECLAIMED'
  | 'INFRASTRUCTURE FAILURE'
  | 'START TIMEOUT';

/** Distinguishes two transitions of one trigger. */
export type Condition =
  | 'retries remain'
  | 'no retries remain'
  | 'not in retry_on'
  | 'forced'
  | 'not forced, retries remain'
  | 'losses remain'
  | 'no losses remain';

/** A row of the table. A transition to PENDING ends the current attempt and opens a new one. */
export interface Transition {
  readonly trigger: Trigger;
  readonly from: readonly RunState[];
  readonly when?: Condition;
  readonly to: RunState;
  /** For the documentation. */
  readonly reason: string;
}

const LIVE: readonly RunState[] = ['PENDING', ...IN_EXECUTION_STATES];

/**
 * Every change of a run's state, except by an admin's PATCH. `decide` looks up here whether a change is allowed; a test
 * compares `to` with what it does. docs/run-states.md and the metrics use the table, too.
 */
export const TRANSITIONS: readonly Transition[] = [
  {
    trigger: 'CLAIM',
    from: ['PENDING'],
    to: 'ASSIGNED',
    reason: 'the scheduler assigns the run to a worker that claimed',
  },
  {
    trigger: 'STARTED',
    from: IN_EXECUTION_STATES,
    to: 'RUNNING',
    reason: 'the worker starts the container; a repeated STARTED changes nothing more',
  },
  {
    trigger: 'COMPLETED',
    from: IN_EXECUTION_STATES,
    to: 'COMPLETED',
    reason: 'the container ended with exit code 0',
  },
  {
    trigger: 'FAILED',
    from: IN_EXECUTION_STATES,
    when: 'retries remain',
    to: 'PENDING',
    reason: 'the attempt failed and the retry policy allows another one',
  },
  {
    trigger: 'FAILED',
    from: IN_EXECUTION_STATES,
    when: 'no retries remain',
    to: 'FAILED',
    reason: 'the attempt failed and the retry policy is used up',
  },
  {
    trigger: 'FAILED',
    from: IN_EXECUTION_STATES,
    when: 'not in retry_on',
    to: 'FAILED',
    reason: 'retry_policy.retry_on names neither the cause of the failure nor its exit code',
  },
  {
    trigger: 'CANCELLED',
    from: LIVE,
    to: 'CANCELLED',
    reason:
      'a client, or the `on_limit` of a concurrency key, cancelled the run; the worker stops the container when it sees the state',
  },
  {
    trigger: 'RETRIED',
    from: RUN_STATES,
    when: 'forced',
    to: 'PENDING',
    reason: 'a client asked for another attempt, whatever the state of the current one',
  },
  {
    trigger: 'RETRIED',
    from: LIVE,
    when: 'not forced, retries remain',
    to: 'PENDING',
    reason: 'another attempt within the retry policy',
  },
  {
    trigger: 'RECLAIMED',
    from: IN_EXECUTION_STATES,
    when: 'losses remain',
    to: 'PENDING',
    reason: 'the worker is stale; another attempt follows and uses up no retry',
  },
  {
    trigger: 'RECLAIMED',
    from: IN_EXECUTION_STATES,
    when: 'no losses remain',
    to: 'FAILED',
    reason:
      'the losses, of which those that one worker repeats count once, are more than SERVICE_MAX_RECLAIMS and SERVICE_LOSS_PATIENCE allow',
  },
  {
    trigger: 'INFRASTRUCTURE FAILURE',
    from: IN_EXECUTION_STATES,
    when: 'losses remain',
    to: 'PENDING',
    reason:
      'the worker reports FAILED with the cause `infrastructure`; another attempt follows, for 10 seconds (60 after ' +
      'losses that one worker repeated) on other workers only, and uses up no retry',
  },
  {
    trigger: 'INFRASTRUCTURE FAILURE',
    from: IN_EXECUTION_STATES,
    when: 'no losses remain',
    to: 'FAILED',
    reason:
      'such failures and reclaims, of which those that one worker repeats count once, are more than SERVICE_MAX_RECLAIMS and SERVICE_LOSS_PATIENCE allow',
  },
  {
    trigger: 'START TIMEOUT',
    from: ['PENDING', 'ASSIGNED'],
    to: 'FAILED',
    reason: 'the attempt was not started within timeouts.start_within_s; recorded as FAILED',
  },
];

export function findTransition(from: RunState, trigger: Trigger, when?: Condition): Transition | undefined {
  return TRANSITIONS.find((row) => row.trigger === trigger && row.when === when && row.from.includes(from));
}
