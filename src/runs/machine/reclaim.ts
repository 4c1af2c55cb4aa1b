import { openAttempt, record, transitionOf } from './record.js';
import type { Command, Outcome } from './run-command.js';
import { MAX_ATTEMPTS_OF_A_RUN, type Run } from './run.js';
import { isInExecution } from './run-state.js';

/**
 * Takes a run from a worker that is lost. It compares before it sets: a run that has ended, or gone on to another
 * worker or attempt, is left alone. A loss never eats the user's retries.
 */
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
  const loss = {
    type: 'RECLAIMED',
    msg: `Worker '${workerId}' lost`,
    payload: { worker_id: workerId, last_heartbeat_at: lastHeartbeatAt?.toISOString() ?? null },
  } as const;
  const lost: Run = {
    ...run,
    state: 'FAILED',
    reclaims,
    errorMessage: loss.msg,
    finishedAt: t,
    updatedAt: t,
  };
  return transition.opensAttempt
    ? openAttempt(lost, 'FAILED', [loss], nextAttempt, t)
    : record(lost, loss, {});
}
