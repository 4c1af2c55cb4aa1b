import { assertNever } from '../../json/assert-never.js';
import type { JsonObject } from '../../json/json-value.js';
import type { Rejection } from './rejection.js';
import {
  MAX_ATTEMPTS_OF_A_RUN,
  type EndedAttempt,
  type NewRun,
  type Run,
  type TimelineEntry,
} from './run.js';
import type { RunEvent } from './run-event.js';
import { isInExecution, isTerminal, type RunState } from './run-state.js';
import { findTransition, type Condition, type Transition, type Trigger } from './transitions.js';

/** Who reports an event, as far as they say; what is given must be true of the run. */
export interface Reporter {
  readonly workerId?: string | undefined;
  readonly attempt?: number | undefined;
}

/** What somebody wants to be done to a run. `nextAttemptId` is the id of the attempt that the command may open. */
export type RunCommand =
  | {
      readonly type: 'event';
      readonly event: RunEvent;
      readonly reporter: Reporter;
      readonly nextAttemptId: string;
    }
  | { readonly type: 'assign'; readonly workerId: string; readonly gpuId: number | null }
  | {
      readonly type: 'patch';
      /** Name of the API key, for the audit log. */
      readonly keyName: string;
      readonly state?: RunState | undefined;
      readonly priority?: number | undefined;
      readonly outputs?: JsonObject | undefined;
    };

/** What a command does: the run afterwards, what its timeline gains, and the attempt that made room. */
export interface Decision {
  readonly run: Run;
  readonly entries: readonly TimelineEntry[];
  readonly endedAttempt?: EndedAttempt;
}

const AUTOMATIC_RETRY = { type: 'RETRIED', msg: 'Automatic retry', payload: { force: false } } as const;

/** The run that a creation makes: pending, attempt 1, an empty timeline. `now` is the database's time. */
export function createRun(fresh: NewRun, now: Date): Run {
  return {
    id: fresh.id,
    state: 'PENDING',
    priority: fresh.priority,
    progress: 0,
    attempt: 1,
    attemptId: fresh.attemptId,
    firstEvent: 0,
    eventCount: 0,
    failures: 0,
    reclaims: 0,
    maxAttempts: fresh.maxAttempts,
    topic: fresh.eventDelivery?.topic ?? null,
    ramMb: fresh.ramMb,
    vramMb: fresh.vramMb,
    cpu: fresh.cpu,
    gpuId: null,
    workerId: null,
    errorMessage: null,
    queuedAt: now,
    assignedAt: null,
    startedAt: null,
    finishedAt: null,
    createdAt: now,
    updatedAt: now,
  };
}

/**
 * The whole state machine: what a command does to a run, or why it is refused.
 * Pure: `now` (the database's time) is given and is moved forward when the run has seen a later time.
 */
export function decide(
  run: Run,
  command: RunCommand,
  now: Date,
): Decision | { readonly rejection: Rejection } {
  const t = now < run.updatedAt ? run.updatedAt : now;
  switch (command.type) {
    case 'assign':
      return decideAssign(run, command, t);
    case 'patch':
      return decidePatch(run, command, t);
    case 'event':
      return decideEvent(run, command, t);
    default:
      return assertNever(command);
  }
}

/** True when the machine refused. */
export function isRejected(
  outcome: Decision | { readonly rejection: Rejection },
): outcome is { readonly rejection: Rejection } {
  return 'rejection' in outcome;
}

type Command<T extends RunCommand['type']> = Extract<RunCommand, { type: T }>;
type Outcome = Decision | { readonly rejection: Rejection };

function decideAssign(run: Run, command: Command<'assign'>, t: Date): Outcome {
  const transition = findTransition(run.state, 'CLAIM');
  if (!transition) return { rejection: { reason: 'not-pending' } };
  const { workerId, gpuId } = command;
  return {
    run: { ...run, state: transition.to, workerId, gpuId, assignedAt: t, updatedAt: t },
    entries: [],
  };
}

function decideEvent(run: Run, command: Command<'event'>, t: Date): Outcome {
  const { event, reporter, nextAttemptId } = command;
  const { effect } = event;
  const forced = effect.kind === 'RETRIED' && effect.force;
  const fence = checkFence(run, reporter, effect.kind === 'STARTED' ? effect.workerId : null);
  if (isTerminal(run.state) && (!forced || fence))
    return { rejection: { reason: 'locked', state: run.state } };
  if (fence) return { rejection: fence };

  switch (effect.kind) {
    case 'NOTE':
      return record(run, event, { updatedAt: t });
    case 'PROGRESS':
      return record(run, event, { progress: effect.progress, updatedAt: t });
    case 'STARTED': {
      const transition = transitionOf(run, 'STARTED');
      if ('rejection' in transition) return transition;
      if (run.workerId !== null && run.workerId !== effect.workerId) {
        return { rejection: { reason: 'other-worker', workerId: effect.workerId } };
      }
      return record(run, event, {
        state: transition.to,
        workerId: effect.workerId,
        gpuId: effect.gpuId ?? run.gpuId,
        assignedAt: run.assignedAt ?? t,
        startedAt: run.startedAt ?? t,
        updatedAt: t,
      });
    }
    case 'COMPLETED': {
      const transition = transitionOf(run, 'COMPLETED');
      if ('rejection' in transition) return transition;
      return record(run, event, {
        state: transition.to,
        progress: 100,
        ...(effect.outputs === undefined ? {} : { outputs: effect.outputs }),
        finishedAt: t,
        updatedAt: t,
      });
    }
    case 'FAILED':
      return decideFailed(run, event, effect.errorMessage, nextAttemptId, t);
    case 'CANCELLED': {
      const transition = transitionOf(run, 'CANCELLED');
      if ('rejection' in transition) return transition;
      return record(run, event, { state: transition.to, finishedAt: t, updatedAt: t });
    }
    case 'RETRIED':
      return decideRetried(run, event, effect.force, nextAttemptId, t);
    default:
      return assertNever(effect);
  }
}

function decideFailed(
  run: Run,
  event: RunEvent,
  errorMessage: string | null,
  nextAttemptId: string,
  t: Date,
): Outcome {
  const failures = run.failures + 1;
  const remain = failures < run.maxAttempts && run.attempt < MAX_ATTEMPTS_OF_A_RUN;
  const transition = transitionOf(run, 'FAILED', remain ? 'retries remain' : 'no retries remain');
  if ('rejection' in transition) return transition;
  const failed: Run = { ...run, state: 'FAILED', failures, errorMessage, finishedAt: t, updatedAt: t };
  return transition.opensAttempt
    ? openAttempt(failed, 'FAILED', [event, AUTOMATIC_RETRY], nextAttemptId, t)
    : record(failed, event, {});
}

function decideRetried(run: Run, event: RunEvent, force: boolean, nextAttemptId: string, t: Date): Outcome {
  if (!force && run.failures >= run.maxAttempts) return { rejection: { reason: 'retries-used-up' } };
  if (run.attempt >= MAX_ATTEMPTS_OF_A_RUN) return { rejection: { reason: 'attempt-limit' } };
  const transition = transitionOf(run, 'RETRIED', force ? 'forced' : 'not forced, retries remain');
  if ('rejection' in transition) return transition;
  return openAttempt(run, isTerminal(run.state) ? run.state : 'CANCELLED', [event], nextAttemptId, t);
}

/**
 * An admin's direct mutation: any state from any state, nothing on the timeline.
 * A run that is put into execution from outside it belongs to no worker until one reports STARTED.
 */
function decidePatch(run: Run, command: Command<'patch'>, t: Date): Outcome {
  const patched: Run = {
    ...run,
    priority: command.priority ?? run.priority,
    ...(command.outputs === undefined ? {} : { outputs: command.outputs }),
    updatedAt: t,
  };
  const { state } = command;
  if (state === undefined || state === run.state) return { run: patched, entries: [] };
  if (isTerminal(state)) {
    return { run: { ...patched, state, finishedAt: run.finishedAt ?? t }, entries: [] };
  }
  const held = isInExecution(state) && isInExecution(run.state);
  return {
    run: {
      ...patched,
      state,
      workerId: held ? run.workerId : null,
      gpuId: held ? run.gpuId : null,
      errorMessage: null,
      queuedAt: state === 'PENDING' ? t : run.queuedAt,
      assignedAt: held ? run.assignedAt : isInExecution(state) ? t : null,
      startedAt: state === 'RUNNING' ? ((held ? run.startedAt : null) ?? t) : null,
      finishedAt: null,
    },
    entries: [],
  };
}

/**
 * Refuses a reporter who does not hold the run. A run in nobody's hands may be taken up by STARTED.
 * @param starting the worker that STARTED names; null for another event
 */
function checkFence(run: Run, reporter: Reporter, starting: string | null): Rejection | undefined {
  const { workerId, attempt } = reporter;
  if (workerId !== undefined && !(isInExecution(run.state) && workerId === (run.workerId ?? starting))) {
    return { reason: 'other-worker', workerId };
  }
  if (attempt !== undefined && attempt !== run.attempt) return { reason: 'stale-attempt', attempt };
  return undefined;
}

function transitionOf(
  run: Run,
  trigger: Trigger,
  when?: Condition,
): Transition | { readonly rejection: Rejection } {
  const transition = findTransition(run.state, trigger, when);
  if (transition) return transition;
  return isTerminal(run.state)
    ? { rejection: { reason: 'locked', state: run.state } }
    : { rejection: { reason: 'not-in-execution' } };
}

type Happening = Pick<RunEvent, 'type' | 'msg' | 'payload'>;

/** Appends one entry to the timeline of the current attempt. */
function record(run: Run, event: Happening, change: Partial<Run>): Decision {
  const next: Run = { ...run, ...change, eventCount: run.eventCount + 1 };
  return { run: next, entries: [entryOf(next, event, run.eventCount, next.state, next.updatedAt)] };
}

/** Ends the current attempt with the given state and entries, and puts a new one into the queue. */
function openAttempt(
  run: Run,
  endState: RunState,
  happenings: readonly Happening[],
  nextAttemptId: string,
  t: Date,
): Decision {
  const eventCount = run.eventCount + happenings.length;
  const endedAttempt: EndedAttempt = {
    id: run.attemptId,
    runId: run.id,
    attempt: run.attempt,
    state: endState,
    progress: run.progress,
    ...(run.outputs === undefined ? {} : { outputs: run.outputs }),
    gpuId: run.gpuId,
    workerId: run.workerId,
    errorMessage: run.errorMessage,
    firstEvent: run.firstEvent,
    endEvent: eventCount,
    queuedAt: run.queuedAt,
    assignedAt: run.assignedAt,
    startedAt: run.startedAt,
    finishedAt: run.finishedAt ?? t,
  };
  const next: Run = {
    ...run,
    state: 'PENDING',
    progress: 0,
    attempt: run.attempt + 1,
    attemptId: nextAttemptId,
    firstEvent: eventCount,
    eventCount,
    outputs: null,
    gpuId: null,
    workerId: null,
    errorMessage: null,
    queuedAt: t,
    assignedAt: null,
    startedAt: null,
    finishedAt: null,
    updatedAt: t,
  };
  const entries = happenings.map((event, i) => entryOf(run, event, run.eventCount + i, next.state, t));
  return { run: next, entries, endedAttempt };
}

function entryOf(run: Run, event: Happening, index: number, state: RunState, t: Date): TimelineEntry {
  const { type, msg, payload } = event;
  return { runId: run.id, index, attempt: run.attempt, type, msg, payload, t, state };
}
