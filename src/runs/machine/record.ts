import type { Rejection } from './rejection.js';
import type { Decision } from './run-command.js';
import type { EndedAttempt, NextAttempt, Run, TimelineEntry } from './run.js';
import type { RunEvent } from './run-event.js';
import { isTerminal, type RunState } from './run-state.js';
import { findTransition, type Condition, type Transition, type Trigger } from './transitions.js';

/** The transition that the table has for a run, or why there is none. */
export function transitionOf(
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

/** What an entry of the timeline says. */
export type Happening = Pick<RunEvent, 'type' | 'msg' | 'payload'>;

/** Appends one entry to the timeline of the current attempt. */
export function record(run: Run, event: Happening, change: Partial<Run>): Decision {
  const changed: Run = { ...run, ...change, eventCount: run.eventCount + 1 };
  const next = changed.state === 'PENDING' ? changed : { ...changed, notBefore: null };
  return { run: next, entries: [entryOf(next, event, run.eventCount, next.state, next.updatedAt)] };
}

/** Ends the current attempt with the given state and entries, and puts a new one into the queue. */
export function openAttempt(
  run: Run,
  endState: RunState,
  happenings: readonly Happening[],
  nextAttempt: NextAttempt,
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
    attemptId: nextAttempt.id,
    firstEvent: eventCount,
    eventCount,
    outputs: null,
    gpuId: null,
    workerId: null,
    errorMessage: null,
    queuedAt: t,
    notBefore: null,
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
