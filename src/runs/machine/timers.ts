import { NO_TIMES, record, transitionOf, type EventContent } from './attempt.js';
import { decideFailed } from './failure.js';
import type { Command, Outcome, Policy } from './run-command.js';
import { isHeld, type Run } from './run.js';

export const TIMER_KINDS = ['start_at', 'back_off', 'avoidance', 'start_timeout', 'attempt_timeout'] as const;
export type TimerKind = (typeof TIMER_KINDS)[number];

/** Seconds from when a run may be claimed in which the worker that it avoids does not get it. */
const AVOIDANCE_S = 10;

/** The same after losses that one worker repeated: others may have to end a run first. */
const LONG_AVOIDANCE_S = 60;

/** A change that time alone makes to a run. A run has one timer at most. */
interface Timer {
  readonly dueAt: Date;
  readonly kind: TimerKind;
}

/** True when the run may be claimed: pending, and neither held, nor before its `startAt`, nor in back-off. */
export function isClaimable(run: Run): boolean {
  return run.state === 'PENDING' && run.notBefore === null;
}

/** When the worker that the run avoids may get it, too; null: it avoids none, or may not be claimed. */
export function avoidanceEnd(run: Run): Date | null {
  if (run.avoidedWorker === null || !isClaimable(run)) return null;
  return plus(run.queuedAt, run.repeatedLosses > 0 ? LONG_AVOIDANCE_S : AVOIDANCE_S);
}

/** When the timeout of the run's present state is over, or null. */
export function timeoutOf(run: Run): Timer | null {
  const { state, startWithinS, attemptTimeoutS, queuedAt, preparingAt, startedAt, workerId } = run;
  // A run that an admin put into ASSIGNED has no worker that could start it in time.
  const isTaken = state === 'ASSIGNED' && workerId !== null && preparingAt === null;
  const awaitsStart = isClaimable(run) || isTaken;
  if (awaitsStart && startWithinS !== null) {
    return { dueAt: plus(queuedAt, startWithinS), kind: 'start_timeout' };
  }
  if (state === 'RUNNING' && startedAt !== null && attemptTimeoutS !== null) {
    return { dueAt: plus(startedAt, attemptTimeoutS), kind: 'attempt_timeout' };
  }
  return null;
}

/** The run's timer in its present state, or null. */
export function timerOf(run: Run): Timer | null {
  const { state, notBefore, startAt } = run;
  if (isHeld(run)) return null;
  if (state === 'PENDING' && notBefore !== null) {
    const isStart = notBefore.getTime() === startAt?.getTime();
    return { dueAt: notBefore, kind: isStart ? 'start_at' : 'back_off' };
  }
  const timeout = timeoutOf(run);
  const avoidedUntil = avoidanceEnd(run);
  if (avoidedUntil === null || (timeout !== null && timeout.dueAt <= avoidedUntil)) return timeout;
  return { dueAt: avoidedUntil, kind: 'avoidance' };
}

/** Applies the run's timer; rejected when none is due. */
export function decideElapse(run: Run, { reason }: Command<'elapse'>, t: Date, policy: Policy): Outcome {
  const timer = timerOf(run);
  if (timer === null || timer.dueAt > t) return { rejection: { reason: 'nothing-due' } };
  switch (timer.kind) {
    case 'start_at':
    case 'back_off':
      return { run: { ...run, notBefore: null, queuedAt: t, updatedAt: t }, entries: [] };
    case 'avoidance':
      // No answer shows it, so the run counts as unchanged.
      return { run: { ...run, avoidedWorker: null }, entries: [] };
    case 'start_timeout': {
      const transition = transitionOf(run, 'START TIMEOUT');
      if ('rejection' in transition) return transition;
      const failure = failureOf(`Not started within ${run.startWithinS} s${reason ? `: ${reason}` : ''}`);
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

/** Makes a held run claimable that waits for no dependency; rejected when it is not held. */
export function decideRelease(run: Run, t: Date): Outcome {
  if (!isHeld(run) || run.waitsFor !== null) return { rejection: { reason: 'nothing-due' } };
  return { run: { ...run, notBefore: null, queuedAt: t, updatedAt: t }, entries: [] };
}

function failureOf(message: string): EventContent & { readonly msg: string } {
  return { type: 'FAILED', msg: message, payload: { error_message: message, cause: 'timeout' } };
}

function plus(time: Date, seconds: number): Date {
  return new Date(time.getTime() + seconds * 1000);
}
