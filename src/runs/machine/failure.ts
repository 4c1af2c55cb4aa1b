import { timesOf, openAttempt, record, transitionOf, type EventContent } from './attempt.js';
import type { Command, Decision, Outcome, Policy, RunLimits } from './run-command.js';
import { isRetried } from './retry-on.js';
import { MAX_ATTEMPTS_OF_A_RUN, NO_LOSSES, type Run } from './run.js';
import type { ContainerTimes, Failure } from './event-types.js';
import { isInExecution } from './run-state.js';

const AUTOMATIC_RETRY = { type: 'RETRIED', msg: 'Automatic retry', payload: { force: false } } as const;

/** Upper bound of every back-off, in seconds. */
const MAX_BACKOFF_S = 86_400;

/** Pauses after the losses of a run in order, in seconds; the last one is that of all further losses. */
const LOSS_PAUSES_S = [0, 5, 15, 45, 120, 300] as const;

/** How much longer a run outlasts losses that one worker alone causes: it may be the only one. */
const PATIENCE_WITH_ONE_WORKER = 4;

/** A failure as its worker reports it. */
type ReportedFailure = Failure & { readonly times: ContainerTimes };

/** Ends the attempt as FAILED. Another attempt follows, after the back-off, if the retry policy allows it; else the run fails. */
export function decideFailed(
  run: Run,
  event: EventContent,
  failure: ReportedFailure,
  t: Date,
  { newId, random }: Policy,
): Outcome {
  const failures = run.failures + 1;
  const remain = failures < run.maxAttempts && run.attempt < MAX_ATTEMPTS_OF_A_RUN;
  const retries = remain && isRetried(run.retryOn, failure);
  const when = retries ? 'retries remain' : remain ? 'not in retry_on' : 'no retries remain';
  const transition = transitionOf(run, 'FAILED', when);
  if ('rejection' in transition) return transition;
  const failed: Run = { ...asFailed(run, failure, t), failures };
  if (!retries) return record(failed, event, {});
  const retried = openAttempt(failed, 'FAILED', [event, AUTOMATIC_RETRY], newId(), t);
  return afterPause(retried, backoffMs(failed, random()), t);
}

/**
 * Ends an attempt that failed through no fault of the run. Like a worker loss it uses up no retry of the policy; the next
 * attempt avoids the worker, and waits only if the run has lost workers before. A failure for which the machine is known to be
 * unable counts as no loss: the pauses grow with the attempts.
 */
export function decideInfrastructureFailure(
  run: Run,
  event: EventContent,
  failure: ReportedFailure,
  t: Date,
  { limits, newId, random }: Policy,
): Outcome {
  const isLoss = (failure.unable ?? null) === null;
  const counted = isLoss ? withLoss(run) : run;
  const remain = isLoss ? lossesRemain(counted, limits) : run.attempt < MAX_ATTEMPTS_OF_A_RUN;
  const when = remain ? 'losses remain' : 'no losses remain';
  const transition = transitionOf(run, 'INFRASTRUCTURE FAILURE', when);
  if ('rejection' in transition) return transition;
  const failed = asFailed(counted, failure, t);
  if (!remain) return record(failed, event, {});
  const retried = openAttempt(failed, 'FAILED', [event, AUTOMATIC_RETRY], newId(), t);
  const decision = { ...retried, run: { ...retried.run, avoidedWorker: run.workerId } };
  const losses = isLoss ? counted.reclaims : run.attempt - run.failures;
  return afterPause(decision, lossPauseMs(losses, random()), t);
}

/**
 * Takes a run from a stale worker if that worker still holds it at that attempt. Uses up no retry of the policy. The next attempt
 * avoids the worker if it lost the attempt before as well.
 */
export function decideReclaim(
  run: Run,
  { workerId, attempt, lastHeartbeatAt }: Command<'reclaim'>,
  t: Date,
  { limits, newId, random }: Policy,
): Outcome {
  if (isInExecution(run.state)) {
    if (run.workerId !== workerId) return { rejection: { reason: 'other-worker', workerId } };
    if (run.attempt !== attempt) return { rejection: { reason: 'stale-attempt', attempt } };
  }
  const counted = withLoss(run);
  const remain = lossesRemain(counted, limits);
  const transition = transitionOf(run, 'RECLAIMED', remain ? 'losses remain' : 'no losses remain');
  if ('rejection' in transition) return transition;
  const errorMessage = `Worker '${workerId}' lost`;
  const event = {
    type: 'RECLAIMED',
    msg: errorMessage,
    payload: { worker_id: workerId, last_heartbeat_at: lastHeartbeatAt?.toISOString() ?? null },
  };
  const lost: Run = { ...counted, state: 'FAILED', errorMessage, finishedAt: t, updatedAt: t };
  if (!remain) return record(lost, event, {});
  const retried = openAttempt(lost, 'FAILED', [event], newId(), t);
  const isRepeated = counted.repeatedLosses > run.repeatedLosses;
  const decision = isRepeated ? { ...retried, run: { ...retried.run, avoidedWorker: workerId } } : retried;
  return afterPause(decision, lossPauseMs(counted.reclaims, random()), t);
}

/**
 * Whether the run survives its latest loss. With a patience it survives more than `maxReclaims` for as long as the patience or, if
 * that is longer, the back-offs of its own policy take: an outage ends no run that is to be tried for hours. The pauses so far are
 * a lower bound of the time since the first loss. Losses of one worker in a row count once, so that one broken machine ends no run
 * that others can execute; since it may be the only machine, they end the run after a longer patience.
 */
function lossesRemain(run: Run, limits: RunLimits): boolean {
  if (run.attempt >= MAX_ATTEMPTS_OF_A_RUN) return false;
  if (run.reclaims <= limits.maxReclaims) return true;
  if (limits.lossPatience === 0) return false;
  const isOfOneWorker = run.reclaims - run.repeatedLosses <= Math.max(1, limits.maxReclaims);
  const waitedS = sumOf(run.reclaims - 1, (before) => lossPauseS(before + 1));
  return (
    waitedS <
    Math.max(
      limits.lossPatience * (isOfOneWorker ? PATIENCE_WITH_ONE_WORKER : 1),
      sumOf(run.maxAttempts - 1, (before) => backoffS(run, before + 1)),
    )
  );
}

function sumOf(count: number, value: (before: number) => number): number {
  return Array.from({ length: count }, (_, before) => value(before)).reduce((sum, one) => sum + one, 0);
}

/** The run with the loss of its current attempt: one that reported progress starts the row of losses anew. */
function withLoss(run: Run): Run {
  const { reclaims, repeatedLosses, lossWorker } = run.progress > 0 ? NO_LOSSES : run;
  const isRepeated = lossWorker !== null && lossWorker === run.workerId;
  return {
    ...run,
    reclaims: reclaims + 1,
    repeatedLosses: repeatedLosses + Number(isRepeated),
    lossWorker: run.workerId,
  };
}

function asFailed(run: Run, { errorMessage, cause, exitCode, times }: ReportedFailure, t: Date): Run {
  return { ...run, state: 'FAILED', errorMessage, cause, exitCode, ...timesOf(run, times, t), updatedAt: t };
}

/** Keeps the new attempt out of the queue for so long; for longer if it has to wait for its start anyway. */
function afterPause(decision: Decision, forMs: number, t: Date): Decision {
  const end = new Date(t.getTime() + forMs);
  if (forMs === 0 || end < (decision.run.notBefore ?? end)) return decision;
  return { ...decision, run: { ...decision.run, notBefore: end } };
}

/** Milliseconds before the next attempt, with a jitter of up to half. */
function backoffMs(run: Run, jitter: number): number {
  return Math.round(backoffS(run, run.failures) * 1000 * (0.5 + jitter / 2));
}

/** Seconds after that many failures: doubled with each one up to the bound of the policy. */
function backoffS({ backoffS: firstS, maxBackoffS }: Run, failures: number): number {
  const bound = maxBackoffS === 0 ? MAX_BACKOFF_S : maxBackoffS;
  return Math.min(bound, firstS * 2 ** Math.min(failures - 1, 30));
}

/** Milliseconds before the next attempt, longer by up to half: runs that were lost together do not come back together. */
function lossPauseMs(losses: number, jitter: number): number {
  return Math.round(lossPauseS(losses) * 1000 * (1 + jitter / 2));
}

function lossPauseS(losses: number): number {
  return LOSS_PAUSES_S[losses - 1] ?? LOSS_PAUSES_S[5];
}
