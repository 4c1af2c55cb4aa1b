import { decideFailed } from './failure.js';
import { record, transitionOf, type Happening } from './record.js';
import type { Command, Outcome } from './run-command.js';
import type { Run } from './run.js';

/** What time itself does to a run. */
export const DEADLINE_KINDS = ['back_off', 'start_budget', 'attempt_budget'] as const;
export type DeadlineKind = (typeof DEADLINE_KINDS)[number];

/** What time itself does to a run, and when. */
interface Deadline {
  readonly at: Date;
  readonly kind: DeadlineKind;
}

/** True when the run may be handed out: pending, and not in back-off. */
export function isClaimable(run: Run): boolean {
  return run.state === 'PENDING' && run.notBefore === null;
}

/** When time itself will next do something to the run; null: never, as it stands. */
export function dueAt(run: Run): Date | null {
  return deadlineOf(run)?.at ?? null;
}

/** What time itself will next do to the run; null: nothing, as it stands. */
export function deadlineKindOf(run: Run): DeadlineKind | null {
  return deadlineOf(run)?.kind ?? null;
}

/** Carries out the deadline that has passed; refused when none has. */
export function decideElapse(run: Run, { nextAttempt }: Command<'elapse'>, t: Date): Outcome {
  const deadline = deadlineOf(run);
  if (deadline === null || deadline.at > t) return { rejection: { reason: 'nothing-due' } };
  switch (deadline.kind) {
    case 'back_off':
      return { run: { ...run, notBefore: null, queuedAt: t, updatedAt: t }, entries: [] };
    case 'start_budget': {
      const transition = transitionOf(run, 'START TIMEOUT');
      if ('rejection' in transition) return transition;
      const failure = failureOf(`Not started within ${run.startWithinS} s`);
      return record(run, failure, {
        state: transition.to,
        failures: run.failures + 1,
        errorMessage: failure.msg,
        finishedAt: t,
        updatedAt: t,
      });
    }
    case 'attempt_budget': {
      const failure = failureOf(`Attempt ran longer than ${run.attemptTimeoutS} s`);
      return decideFailed(run, failure, failure.msg, nextAttempt, t);
    }
  }
}

function deadlineOf(run: Run): Deadline | null {
  const { state, notBefore, startWithinS, attemptTimeoutS, queuedAt, startedAt, workerId } = run;
  if (state === 'PENDING' && notBefore !== null) return { at: notBefore, kind: 'back_off' };
  // A run that an admin put into ASSIGNED is in nobody's hands who could be late.
  const awaitsStart = state === 'PENDING' || (state === 'ASSIGNED' && workerId !== null);
  if (awaitsStart && startWithinS !== null) {
    return { at: plus(queuedAt, startWithinS), kind: 'start_budget' };
  }
  if (state === 'RUNNING' && startedAt !== null && attemptTimeoutS !== null) {
    return { at: plus(startedAt, attemptTimeoutS), kind: 'attempt_budget' };
  }
  return null;
}

function failureOf(message: string): Happening & { readonly msg: string } {
  return { type: 'FAILED', msg: message, payload: { error_message: message } };
}

function plus(time: Date, seconds: number): Date {
  return new Date(time.getTime() + seconds * 1000);
}
