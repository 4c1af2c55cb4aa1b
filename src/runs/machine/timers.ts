import { NO_TIMES } from './container-times.js';
import { decideFailed } from './failure.js';
import { record, transitionOf, type EventContent } from './record.js';
import type { Outcome, Policy } from './run-command.js';
import type { Run } from './run.js';

export const TIMER_KINDS = ['start_at', 'back_off', 'start_timeout', 'attempt_timeout'] as const;
export type TimerKind = (typeof TIMER_KINDS)[number];

/** A change that time alone makes to a run. A run has one timer at most. */
interface Timer {
  readonly dueAt: Date;
  readonly kind: TimerKind;
}

/** True when the run may be claimed: pending, and neither before its `startAt` nor in back-off. */
export function isClaimable(run: Run): boolean {
  return run.state === 'PENDING' && run.notBefore === null;
}

/** The run's timer in its present state, or null. */
export function timerOf(run: Run): Timer | null {
  const { state, notBefore, startAt, startWithinS, attemptTimeoutS, queuedAt, startedAt, workerId } = run;
  if (state === 'PENDING' && notBefore !== null) {
    const isStart = notBefore.getTime() === startAt?.getTime();
    return { dueAt: notBefore, kind: isStart ? 'start_at' : 'back_off' };
  }
  // A run that an admin put into ASSIGNED has no worker that could start it in time.
  const awaitsStart = state === 'PENDING' || (state === 'ASSIGNED' && workerId !== null);
  if (awaitsStart && startWithinS !== null) {
    return { dueAt: plus(queuedAt, startWithinS), kind: 'start_timeout' };
  }
  if (state === 'RUNNING' && startedAt !== null && attemptTimeoutS !== null) {
    return { dueAt: plus(startedAt, attemptTimeoutS), kind: 'attempt_timeout' };
  }
  return null;
}

/** Applies the run's timer; rejected when none is due. */
export function decideElapse(run: Run, t: Date, policy: Policy): Outcome {
  const timer = timerOf(run);
  if (timer === null || timer.dueAt > t) return { rejection: { reason: 'nothing-due' } };
  switch (timer.kind) {
    case 'start_at':
    case 'back_off':
      return { run: { ...run, notBefore: null, queuedAt: t, updatedAt: t }, entries: [] };
    case 'start_timeout': {
      const transition = transitionOf(run, 'START TIMEOUT');
      if ('rejection' in transition) return transition;
      const failure = failureOf(`Not started within ${run.startWithinS} s`);
      return record(run, failure, {
        state: transition.to,
        failures: run.failures + 1,
        errorMessage: failure.msg,
        cause: 'timeout',
        finishedAt: t,
        updatedAt: t,
      });
    }
    case 'attempt_timeout': {
      const failure = failureOf(`Attempt ran longer than ${run.attemptTimeoutS} s`);
      const timedOut = {
        errorMessage: failure.msg,
        cause: 'timeout',
        exitCode: null,
        times: NO_TIMES,
      } as const;
      return decideFailed(run, failure, timedOut, t, policy);
    }
  }
}

function failureOf(message: string): EventContent & { readonly msg: string } {
  return { type: 'FAILED', msg: message, payload: { error_message: message, cause: 'timeout' } };
}

function plus(time: Date, seconds: number): Date {
  return new Date(time.getTime() + seconds * 1000);
}
