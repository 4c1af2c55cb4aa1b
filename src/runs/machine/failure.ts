import { openAttempt, record, transitionOf, type EventContent } from './record.js';
import type { Command, Outcome } from './run-command.js';
import { MAX_ATTEMPTS_OF_A_RUN, type NextAttempt, type Run } from './run.js';
import { isInExecution } from './run-state.js';

const AUTOMATIC_RETRY = { type: 'RETRIED', msg: 'Automatic retry', payload: { force: false } } as const;

/** Upper bound of every back-off, in seconds. */
const MAX_BACKOFF_S = 86_400;

/** Ends the attempt as FAILED. While retries remain another attempt follows, after the back-off; else the run fails. */
export function decideFailed(
  run: Run,
  event: EventContent,
  errorMessage: string | null,
  nextAttempt: NextAttempt,
  t: Date,
): Outcome {
  const failures = run.failures + 1;
  const remain = failures < run.maxAttempts && run.attempt < MAX_ATTEMPTS_OF_A_RUN;
  const transition = transitionOf(run, 'FAILED', remain ? 'retries remain' : 'no retries remain');
  if ('rejection' in transition) return transition;
  const failed: Run = { ...run, state: 'FAILED', failures, errorMessage, finishedAt: t, updatedAt: t };
  if (!remain) return record(failed, event, {});
  const retried = openAttempt(failed, 'FAILED', [event, AUTOMATIC_RETRY], nextAttempt, t);
  const pauseMs = backoffMs(failed, nextAttempt.jitter);
  if (pauseMs === 0) return retried;
  return { ...retried, run: { ...retried.run, notBefore: new Date(t.getTime() + pauseMs) } };
}

/** Takes a run from a lost worker if that worker still holds it at that attempt. Uses up no retry of the policy. */
export function decideReclaim(run: Run, command: Command<'reclaim'>, t: Date): Outcome {
  const { workerId, attempt, lastHeartbeatAt, maxReclaims, nextAttempt } = command;
  if (isInExecution(run.state)) {
    if (run.workerId !== workerId) return { rejection: { reason: 'other-worker', workerId } };
    if (run.attempt !== attempt) return { rejection: { reason: 'stale-attempt', attempt } };
  }
  const reclaims = run.reclaims + 1;
  const remain = reclaims <= maxReclaims && run.attempt < MAX_ATTEMPTS_OF_A_RUN;
  const transition = transitionOf(run, 'RECLAIMED', remain ? 'losses remain' : 'no losses remain');
  if ('rejection' in transition) return transition;
  const errorMessage = `Worker '${workerId}' lost`;
  const event = {
    type: 'RECLAIMED',
    msg: errorMessage,
    payload: { worker_id: workerId, last_heartbeat_at: lastHeartbeatAt?.toISOString() ?? null },
  };
  const lost: Run = { ...run, state: 'FAILED', reclaims, errorMessage, finishedAt: t, updatedAt: t };
  return remain ? openAttempt(lost, 'FAILED', [event], nextAttempt, t) : record(lost, event, {});
}

/** Milliseconds before the next attempt: doubled with each failure up to the bound, with a jitter of up to half. */
function backoffMs({ backoffS, maxBackoffS, failures }: Run, jitter: number): number {
  const bound = maxBackoffS === 0 ? MAX_BACKOFF_S : maxBackoffS;
  const seconds = Math.min(bound, backoffS * 2 ** Math.min(failures - 1, 30));
  return Math.round(seconds * 1000 * (0.5 + jitter / 2));
}
