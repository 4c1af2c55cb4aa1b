import { openAttempt, record, transitionOf, type Happening } from './record.js';
import type { Outcome } from './run-command.js';
import { MAX_ATTEMPTS_OF_A_RUN, type NextAttempt, type Run } from './run.js';

const AUTOMATIC_RETRY = { type: 'RETRIED', msg: 'Automatic retry', payload: { force: false } } as const;

/** Longest back-off in seconds, whatever the policy says. */
const LONGEST_BACKOFF_S = 86_400;

/** The attempt has failed: another one after the policy's back-off while retries remain, else the run fails. */
export function decideFailed(
  run: Run,
  happening: Happening,
  errorMessage: string | null,
  nextAttempt: NextAttempt,
  t: Date,
): Outcome {
  const failures = run.failures + 1;
  const remain = failures < run.maxAttempts && run.attempt < MAX_ATTEMPTS_OF_A_RUN;
  const transition = transitionOf(run, 'FAILED', remain ? 'retries remain' : 'no retries remain');
  if ('rejection' in transition) return transition;
  const failed: Run = { ...run, state: 'FAILED', failures, errorMessage, finishedAt: t, updatedAt: t };
  if (!transition.opensAttempt) return record(failed, happening, {});
  const retried = openAttempt(failed, 'FAILED', [happening, AUTOMATIC_RETRY], nextAttempt, t);
  const pauseMs = backoffMs(failed, nextAttempt.jitter);
  if (pauseMs === 0) return retried;
  return { ...retried, run: { ...retried.run, notBefore: new Date(t.getTime() + pauseMs) } };
}

/**
 * Milliseconds before the next attempt: doubled with each failure up to the policy's bound, of which between half and
 * the whole is waited, so that runs which failed together do not come back together.
 */
function backoffMs({ backoffS, maxBackoffS, failures }: Run, jitter: number): number {
  const bound = maxBackoffS === 0 ? LONGEST_BACKOFF_S : maxBackoffS;
  const seconds = Math.min(bound, backoffS * 2 ** Math.min(failures - 1, 30));
  return Math.round(seconds * 1000 * (0.5 + jitter / 2));
}
