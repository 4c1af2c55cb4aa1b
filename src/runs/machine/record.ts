import type { Decision, Rejected } from './run-command.js';
import { growthAfter } from './growth.js';
import { NEW_ATTEMPT, waitForStart, type Run, type TimelineEntry } from './run.js';
import type { RunEvent } from './run-event.js';
import { isTerminal, type RunState } from './run-state.js';
import { findTransition, type Condition, type Transition, type Trigger } from './transitions.js';

/** The transition of a run by a trigger, or why there is none. */
export function transitionOf(run: Run, trigger: Trigger, when?: Condition): Transition | Rejected {
  const transition = findTransition(run.state, trigger, when);
  if (transition) return transition;
  return isTerminal(run.state)
    ? { rejection: { reason: 'locked', state: run.state } }
    : { rejection: { reason: 'not-in-execution' } };
}

export type EventContent = Pick<RunEvent, 'type' | 'msg' | 'payload' | 'sender'>;

/** Appends one entry to the timeline of the current attempt. */
export function record(run: Run, event: EventContent, change: Partial<Run>): Decision {
  const changed: Run = { ...run, ...change, eventCount: run.eventCount + 1 };
  const keepsWait = changed.state === 'PENDING' || changed.notBefore === null;
  const next = keepsWait ? changed : { ...changed, notBefore: null };
  return { run: next, entries: [entryOf(next, event, run.eventCount, next.state, next.updatedAt)] };
}

/** Ends the current attempt with the given state and entries, and opens a new one, which waits for `startAt` at most. */
export function openAttempt(
  run: Run,
  endState: RunState,
  events: readonly EventContent[],
  attemptId: string,
  t: Date,
): Decision {
  const eventCount = run.eventCount + events.length;
  return {
    run: {
      ...run,
      ...growthAfter(run, endState),
      ...NEW_ATTEMPT,
      attempt: run.attempt + 1,
      attemptId,
      firstEvent: eventCount,
      eventCount,
      queuedAt: t,
      notBefore: waitForStart(run, t),
      updatedAt: t,
    },
    entries: events.map((event, i) => entryOf(run, event, run.eventCount + i, 'PENDING', t)),
    endedAttempt: {
      ...run,
      id: run.attemptId,
      runId: run.id,
      ramMb: run.extraConstraints?.grow === undefined ? null : run.ramMb,
      state: endState,
      endEvent: eventCount,
      finishedAt: run.finishedAt ?? t,
    },
  };
}

function entryOf(run: Run, event: EventContent, index: number, state: RunState, t: Date): TimelineEntry {
  const { type, msg, payload, sender = null } = event;
  return { runId: run.id, index, attempt: run.attempt, type, msg, payload, t, state, sender };
}
