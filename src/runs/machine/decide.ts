import { isDeepStrictEqual } from 'node:util';
import { assertNever } from '@longshore/common/json/assert-never';
import {
  joinGpuIds,
  MAX_ATTEMPTS_OF_A_RUN,
  NO_END,
  waitOf,
  type Run,
  areTooMany,
  mergeLabels,
} from './run.js';
import {
  cancelRun,
  startWithin,
  timesOf,
  recordNote,
  openAttempt,
  record,
  transitionOf,
  withFreshBudget,
} from './attempt.js';
import type { EventEffect } from './event-types.js';
import { decideFailed, decideInfrastructureFailure, decideReclaim } from './failure.js';
import type { Rejection, Command, Outcome, Policy, Reporter, RunCommand } from './run-command.js';
import type { RunEvent } from './run-event.js';
import { isInExecution, isTerminal, type RunState } from './run-state.js';
import { decideReopen, decideResolve, decideSupply } from './dependencies.js';
import { decideElapse, decideRelease } from './timers.js';
import { findTransition } from './transitions.js';

type Started = Extract<EventEffect, { kind: 'STARTED' }>;

/**
 * What a command does to a run, or why it is rejected. Depends on its arguments alone. A `now` before the run's `updatedAt`
 * is ignored.
 */
export function decide(run: Run, command: RunCommand, now: Date, policy: Policy): Outcome {
  const t = now < run.updatedAt ? run.updatedAt : now;
  switch (command.type) {
    case 'assign':
      return decideAssign(run, command, t);
    case 'patch':
      return decidePatch(run, command, t, policy);
    case 'label':
      return decideLabel(run, command, t);
    case 'event':
      return decideEvent(run, command, t, policy);
    case 'reclaim':
      return decideReclaim(run, command, t, policy);
    case 'elapse':
      return decideElapse(run, command, t, policy);
    case 'release':
      return decideRelease(run, t);
    case 'depend':
      return { run: { ...run, dependents: (run.dependents ?? 0) + command.dependents }, entries: [] };
    case 'resolve':
      return decideResolve(run, command, t);
    case 'supply':
      return decideSupply(run, command, t);
    case 'reopen':
      return decideReopen(run, command, t, policy);
    default:
      return assertNever(command);
  }
}

function decideAssign(run: Run, command: Command<'assign'>, t: Date): Outcome {
  const transition = findTransition(run.state, 'CLAIM');
  if (!transition || run.notBefore !== null) return { rejection: { reason: 'not-pending' } };
  const { workerId, gpuId } = command;
  const gpuIds = joinGpuIds(command.gpuIds ?? []);
  return {
    run: { ...run, state: transition.to, workerId, gpuId, gpuIds, assignedAt: t, updatedAt: t },
    entries: [],
  };
}

function decideEvent(run: Run, { event, reporter }: Command<'event'>, t: Date, policy: Policy): Outcome {
  const { limits } = policy;
  const { effect } = event;
  const forced = effect.kind === 'RETRIED' && effect.force;
  const fence = checkFence(run, reporter, effect.kind === 'STARTED' ? effect.workerId : null);
  if (isTerminal(run.state) && (!forced || fence)) {
    return { rejection: { reason: 'locked', state: run.state } };
  }
  if (fence) return { rejection: fence };

  switch (effect.kind) {
    case 'NOTE':
      return recordNote(run, event, { updatedAt: t }, limits);
    case 'PROGRESS':
      return recordNote(run, event, { progress: effect.progress, updatedAt: t }, limits);
    case 'PREPARING': {
      if (!isInExecution(run.state)) return { rejection: { reason: 'not-in-execution' } };
      const preparingAt = run.state === 'ASSIGNED' ? (run.preparingAt ?? t) : run.preparingAt;
      return recordNote(run, event, { preparingAt, updatedAt: t }, limits);
    }
    case 'STARTED': {
      const transition = transitionOf(run, 'STARTED');
      if ('rejection' in transition) return transition;
      if (run.workerId !== null && run.workerId !== effect.workerId) {
        return { rejection: { reason: 'other-worker', workerId: effect.workerId } };
      }
      const change = {
        state: transition.to,
        workerId: effect.workerId,
        ...gpusOfStart(run, effect),
        assignedAt: run.assignedAt ?? t,
        startedAt: run.startedAt ?? (effect.startedAt ? startWithin(run, effect.startedAt, t) : t),
        updatedAt: t,
      };
      // A worker may report STARTED again and again.
      return run.state === 'RUNNING' ? recordNote(run, event, change, limits) : record(run, event, change);
    }
    case 'COMPLETED': {
      const transition = transitionOf(run, 'COMPLETED');
      if ('rejection' in transition) return transition;
      return record(run, event, {
        state: transition.to,
        progress: 100,
        ...(effect.outputs === undefined ? {} : { outputs: effect.outputs }),
        ...timesOf(run, effect.times, t),
        updatedAt: t,
      });
    }
    case 'FAILED':
      return effect.cause === 'infrastructure'
        ? decideInfrastructureFailure(run, event, effect, t, policy)
        : decideFailed(run, event, effect, t, policy);
    case 'CANCELLED': {
      const transition = transitionOf(run, 'CANCELLED');
      if ('rejection' in transition) return transition;
      return cancelRun(run, event, effect, t);
    }
    case 'RETRIED':
      return decideRetried(
        forced && reporter.workerId === undefined
          ? { ...withFreshBudget(run), reopens: effect.reopens ?? null }
          : run,
        event,
        effect,
        t,
        policy,
      );
    default:
      return assertNever(effect);
  }
}

/** The GPUs that an attempt uses: those that the worker reports, else those that were assigned. */
function gpusOfStart(run: Run, { gpuId, gpuIds }: Started): Pick<Run, 'gpuId' | 'gpuIds'> {
  const first = gpuId ?? gpuIds[0] ?? run.gpuId;
  return { gpuId: first, gpuIds: joinGpuIds(gpuIds) ?? (first === run.gpuId ? run.gpuIds : null) };
}

function decideRetried(
  run: Run,
  event: RunEvent,
  { force }: Extract<EventEffect, { kind: 'RETRIED' }>,
  t: Date,
  policy: Policy,
): Outcome {
  if (!force && run.failures >= run.maxAttempts) return { rejection: { reason: 'retries-used-up' } };
  if (run.attempt >= MAX_ATTEMPTS_OF_A_RUN) return { rejection: { reason: 'attempt-limit' } };
  const transition = transitionOf(run, 'RETRIED', force ? 'forced' : 'not forced, retries remain');
  if ('rejection' in transition) return transition;
  return openAttempt(run, endStateOf(run), [event], policy.newId(), t);
}

/**
 * An admin's direct change: any state from any state, no timeline entry. PENDING ends a back-off, but not the wait for
 * `startAt`. A run that a patch puts into execution has no worker until one reports STARTED. A request refreshes `updatedAt`
 * even if it changes nothing; a bulk operation leaves a run alone that has the priority already.
 */
function decidePatch(run: Run, command: Command<'patch'>, t: Date, policy: Policy): Outcome {
  if (command.keyName === null && command.priority === run.priority) return { run, entries: [] };
  const opened = isOpenedByPatch(run, command)
    ? openAttempt(run, endStateOf(run), [], policy.newId(), t)
    : null;
  const patched: Run = {
    ...(opened?.run ?? run),
    priority: command.priority ?? run.priority,
    ...(command.outputs === undefined ? {} : { outputs: command.outputs }),
    updatedAt: t,
  };
  const { state } = command;
  if (state === undefined || (state === run.state && run.notBefore === null)) {
    return { run: patched, entries: [] };
  }
  if (isTerminal(state)) {
    return {
      run: { ...patched, state, notBefore: null, waitsFor: null, finishedAt: run.finishedAt ?? t },
      entries: [],
    };
  }
  const held = staysInExecution(run, state);
  return {
    ...opened,
    run: {
      ...patched,
      ...NO_END,
      state,
      workerId: held ? run.workerId : null,
      gpuId: held ? run.gpuId : null,
      gpuIds: held ? run.gpuIds : null,
      queuedAt: state === 'PENDING' ? t : run.queuedAt,
      ...(state === 'PENDING' ? waitOf(run, t) : { notBefore: null, waitsFor: null }),
      assignedAt: held ? run.assignedAt : isInExecution(state) ? t : null,
      preparingAt: held ? run.preparingAt : null,
      startedAt: state === 'RUNNING' ? ((held ? run.startedAt : null) ?? t) : null,
    },
    entries: [],
  };
}

/**
 * Whether a patch opens an attempt: of a run with files that a worker has had, so that what this one still sends is not taken for
 * what the next one leaves. Otherwise the current attempt follows.
 */
function isOpenedByPatch(run: Run, { state }: Command<'patch'>): boolean {
  if (run.hasFiles !== true || run.assignedAt === null || run.attempt >= MAX_ATTEMPTS_OF_A_RUN) return false;
  if (state === undefined || state === run.state || isTerminal(state)) return false;
  return !staysInExecution(run, state);
}

/** Whether the worker keeps the run in this state. */
function staysInExecution(run: Run, state: RunState): boolean {
  return isInExecution(run.state) && isInExecution(state);
}

/** The state of an attempt that another one supersedes. */
function endStateOf({ state }: Run): RunState {
  return isTerminal(state) ? state : 'CANCELLED';
}

/** In every state, without a timeline entry; the run itself when it has the name and the labels already. */
function decideLabel(run: Run, { labels: changes, name }: Command<'label'>, t: Date): Outcome {
  const labels = mergeLabels(run.labels, changes);
  if (areTooMany(labels)) return { rejection: { reason: 'too-many-labels' } };
  const named = name === undefined ? (run.name ?? null) : name;
  if (isDeepStrictEqual(labels, mergeLabels(run.labels)) && named === (run.name ?? null))
    return { run, entries: [] };
  return { run: { ...run, labels, name: named, updatedAt: t }, entries: [] };
}

/** Rejects a reporter that does not hold the run. STARTED (`startedBy`) assigns a run in execution without a worker. */
function checkFence(run: Run, reporter: Reporter, startedBy: string | null): Rejection | undefined {
  const { workerId, attempt } = reporter;
  if (workerId !== undefined && !(isInExecution(run.state) && workerId === (run.workerId ?? startedBy))) {
    return { reason: 'other-worker', workerId };
  }
  if (attempt !== undefined && attempt !== run.attempt) return { reason: 'stale-attempt', attempt };
  return undefined;
}
