import { cancelRun, openAttempt, withFreshBudget } from './attempt.js';
import type { Command, Outcome, Policy } from './run-command.js';
import { HELD, isHeld, MAX_ATTEMPTS_OF_A_RUN, waitForStart, waitOf, type Run } from './run.js';
import { MANUAL_RETRY, serviceCancel } from './run-event.js';
import { isTerminal } from './run-state.js';

/** Counts ends that a run waits for; the last one makes it ready, one that is not as the run needs it cancels it. Rejected unless it waits. */
export function decideResolve(run: Run, { met, broken }: Command<'resolve'>, t: Date): Outcome {
  if (!isHeld(run) || run.waitsFor === null) return { rejection: { reason: 'nothing-due' } };
  if (broken) {
    const { reason } = broken;
    const payload =
      'scheduleId' in broken
        ? { schedule: broken.scheduleId, reason }
        : { [broken.isGroup ? 'group_id' : 'run_id']: broken.parentId };
    return cancelRun(run, serviceCancel('dependency', reason, payload), { cause: 'dependency', reason }, t);
  }
  const waitsFor = Math.max(0, run.waitsFor - met);
  if (waitsFor > 0) return { run: { ...run, waitsFor }, entries: [] };
  return { run: { ...run, ...waitOf(run, t), queuedAt: t, updatedAt: t }, entries: [] };
}

/** Makes a run ready whose inputs are complete; with a problem it is cancelled. Rejected unless it waits for them alone. */
export function decideSupply(run: Run, { problem }: Command<'supply'>, t: Date): Outcome {
  if (!isHeld(run) || run.waitsFor !== 0) return { rejection: { reason: 'nothing-due' } };
  if (problem !== undefined)
    return cancelRun(run, serviceCancel('inputs', problem), { cause: 'inputs', reason: problem }, t);
  const notBefore = waitForStart(run, t);
  return {
    run: { ...run, hasSources: null, waitsFor: null, notBefore, queuedAt: t, updatedAt: t },
    entries: [],
  };
}

/** Opens another attempt of a run that has ended, which may wait for others. */
export function decideReopen(
  run: Run,
  { waitsFor, sender }: Command<'reopen'>,
  t: Date,
  policy: Policy,
): Outcome {
  if (!isTerminal(run.state)) return { rejection: { reason: 'nothing-due' } };
  if (run.attempt >= MAX_ATTEMPTS_OF_A_RUN) return { rejection: { reason: 'attempt-limit' } };
  const opened = openAttempt(
    withFreshBudget(run),
    run.state,
    [{ ...MANUAL_RETRY, sender }],
    policy.newId(),
    t,
  );
  const wait = waitsFor === null ? {} : { waitsFor, notBefore: HELD };
  return { ...opened, run: { ...opened.run, ...wait, reopens: true } };
}
