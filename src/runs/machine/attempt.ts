import type { Decision, Rejected } from './run-command.js';
import { NEW_ATTEMPT, NO_LOSSES, waitOf, type Run, type TimelineEntry } from './run.js';
import type { RunEvent } from './run-event.js';
import { isTerminal, type RunState } from './run-state.js';
import { findTransition, type Condition, type Transition, type Trigger } from './transitions.js';
import type { AmountGrowth } from '../../database/entities/run.entity.js';
import { isNamed } from './retry-on.js';
import { jsonText } from '@longshore/common/json/json-text';
import type { CancelCause, ContainerTimes } from './event-types.js';

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
  const next = keepsWait ? changed : { ...changed, notBefore: null, waitsFor: null };
  return { run: next, entries: [entryOf(next, event, run.eventCount, next.state, next.updatedAt)] };
}

/** Ends the current attempt with the given state and entries, and opens a new one, which waits for `startAt`, or for the others that the run still waits for. */
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
      ...(run.waitsFor === null && waitOf(run, t)),
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

/** Ends the run as CANCELLED. */
export function cancelRun(
  run: Run,
  event: EventContent,
  {
    reason = null,
    cause = null,
  }: { readonly reason?: string | null | undefined; readonly cause?: CancelCause | null },
  t: Date,
): Decision {
  return record(run, event, { state: 'CANCELLED', cause, cancelReason: reason, finishedAt: t, updatedAt: t });
}

/** A run whose failures and losses are counted anew: somebody who is not its worker wants it to be tried again. */
export function withFreshBudget(run: Run): Run {
  return { ...run, ...NO_LOSSES, failures: 0 };
}

function entryOf(run: Run, event: EventContent, index: number, state: RunState, t: Date): TimelineEntry {
  const { type, msg, payload, sender = null } = event;
  return { runId: run.id, index, attempt: run.attempt, type, msg, payload, t, state, sender };
}

/** The failures after which a run grows unless it names others. */
const DEFAULT_ON = ['oom'];

/**
 * What the next attempt has in place of what the ended one had. A run grows once for each attempt that failed as its policy
 * says, whatever opens the next one, and never for a failure of the infrastructure or a lost worker, which has no cause.
 * @param run with the end of its attempt
 * @param endState of the attempt
 */
export function growthAfter(run: Run, endState: RunState): Partial<Pick<Run, 'ramMb' | 'extraConstraints'>> {
  const { ramMb, extraConstraints, cause, exitCode } = run;
  const growth = extraConstraints?.grow?.ram_mb;
  if (growth === undefined || endState !== 'FAILED' || cause === null || cause === 'infrastructure')
    return {};
  if (!isNamed(growth.on ?? DEFAULT_ON, { cause, exitCode })) return {};
  const { ram_mb: asked, failures } = extraConstraints?.grown ?? { ram_mb: ramMb, failures: 0 };
  const grown = { ram_mb: asked, failures: failures + 1 };
  return {
    ramMb: grownAmount(asked, growth, grown.failures),
    extraConstraints: { ...extraConstraints, grown },
  };
}

/** The amount, multiplied so often by the factor as its decimal digits say, rounded up, and at most the maximum. */
export function grownAmount(amount: number, { factor, max }: AmountGrowth, times: number): number {
  const [whole = '', fraction = ''] = String(factor).split('.');
  const power = BigInt(whole + fraction) ** BigInt(times);
  const scale = 10n ** BigInt(fraction.length * times);
  const grown = (BigInt(amount) * power + scale - 1n) / scale;
  return grown < max ? Number(grown) : max;
}

/** See the settings of these names. */
export interface NoteLimits {
  readonly maxAttemptEvents: number;
  readonly maxAttemptEventBytes: number;
}

const LARGEST_INTEGER = 2 ** 31 - 1;

/**
 * Records an event that changes no state, unless the attempt has reached its limits. The first event beyond them is
 * replaced by EVENTS_DROPPED; later ones change the run only.
 */
export function recordNote(
  run: Run,
  event: EventContent,
  change: Partial<Run>,
  limits: NoteLimits,
): Decision {
  const bytes = Buffer.byteLength(JSON.stringify(event.msg)) + Buffer.byteLength(jsonText(event.payload));
  const counted = {
    noteCount: Math.min(run.noteCount + 1, LARGEST_INTEGER),
    noteBytes: Math.min(run.noteBytes + bytes, LARGEST_INTEGER),
  };
  const changed = { ...change, ...counted };
  if (isWithin(limits, counted)) return record(run, event, changed);
  if (isWithin(limits, run)) return record(run, droppedBy(limits), changed);
  return { run: { ...run, ...changed }, entries: [] };
}

function isWithin(
  { maxAttemptEvents, maxAttemptEventBytes }: NoteLimits,
  { noteCount, noteBytes }: Pick<Run, 'noteCount' | 'noteBytes'>,
): boolean {
  return noteCount <= maxAttemptEvents && noteBytes <= maxAttemptEventBytes;
}

function droppedBy({ maxAttemptEvents, maxAttemptEventBytes }: NoteLimits): EventContent {
  return {
    type: 'EVENTS_DROPPED',
    msg: 'Further events of this attempt are not recorded',
    payload: { max_events: maxAttemptEvents, max_bytes: maxAttemptEventBytes },
  };
}

/** When an attempt ran: fields of the run. */
type RunTimes = Pick<Run, 'startedAt'> & { readonly finishedAt: Date };

export const NO_TIMES: ContainerTimes = { startedAt: null, finishedAt: null };

/** The start that a worker reports, not before the assignment and not after `t`. */
export function startWithin({ assignedAt }: Run, startedAt: Date, t: Date): Date {
  return within(startedAt, assignedAt ?? t, t);
}

/**
 * The times of an attempt that ends at `t`, or has ended before: those of its container if they are reported, within the
 * assignment and `t`. A container does not end before its start.
 */
export function timesOf(run: Run, { startedAt, finishedAt }: ContainerTimes, t: Date): RunTimes {
  const start = startedAt === null ? run.startedAt : startWithin(run, startedAt, t);
  const first = start ?? run.assignedAt ?? t;
  return { startedAt: start, finishedAt: finishedAt === null ? t : within(finishedAt, first, t) };
}

function within(time: Date, from: Date, to: Date): Date {
  if (time > to) return to;
  return time < from ? from : time;
}
