import assert from 'node:assert/strict';
import { decide } from './decide.js';
import { rejectionDetail } from '../run.errors.js';
import {
  isRejected,
  type Command,
  type Decision,
  type Outcome,
  type Policy,
  type RunCommand,
  type RunLimits,
} from './run-command.js';
import { createRun, NO_OPTIONS, type NewRun, type Run } from './run.js';
import { readEvent, userCancel, type ReportedEvent, type RunEvent } from './run-event.js';
import type { RunState } from './run-state.js';

export const T0 = new Date('2026-01-01T00:00:00.000Z');
export const later = (seconds: number): Date => new Date(T0.getTime() + seconds * 1000);

/** Three losses, any number of events, the longest pauses. */
export const POLICY: Policy = {
  limits: { maxReclaims: 3, lossPatience: 0, maxAttemptEvents: Infinity, maxAttemptEventBytes: Infinity },
  newId: () => 'attempt-next',
  random: () => 1,
};

/** Decides by {@link POLICY}, but for what is given. @param jitter from 0 to 1: see `Policy.random` */
export function decideAt(
  run: Run,
  next: RunCommand,
  now: Date,
  { limits = {}, jitter = 1 }: { readonly limits?: Partial<RunLimits>; readonly jitter?: number } = {},
): Outcome {
  return decide(run, next, now, { ...POLICY, limits: { ...POLICY.limits, ...limits }, random: () => jitter });
}

/** A run to be created. */
export const NEW_RUN: NewRun = {
  id: 'run-1',
  attemptId: 'attempt-1',
  image: 'image',
  priority: 0,
  inputs: {},
  outputsTemplate: {},
  ramMb: 0,
  vramMb: 0,
  cpu: 0,
  maxAttempts: 3,
  backoffS: 0,
  maxBackoffS: 0,
  startWithinS: null,
  attemptTimeoutS: null,
  topic: 'topic',
  attributes: null,
  definitionId: null,
  definitionVersion: null,
  ...NO_OPTIONS,
  traceparent: null,
  tracestate: null,
  createdBy: null,
  createdByName: null,
  rerunOf: null,
  request: null,
};

const { outputs: _, ...created } = createRun(NEW_RUN, T0);

/** A new run as the journal reads it: without its outputs. */
export const FRESH: Run = created;

export function event(
  reported: ReportedEvent,
  reporter: { workerId?: string; attempt?: number } = {},
): Command<'event'> {
  const read = readEvent(reported);
  assert.ok(!('problems' in read), 'the event is well-formed');
  return { type: 'event', event: read, reporter };
}

export function command(known: RunEvent): RunCommand {
  return { type: 'event', event: known, reporter: {} };
}

export const ASSIGN: RunCommand = { type: 'assign', workerId: 'w1', gpuId: null };
export const STARTED = event({ type: 'STARTED', msg: 'go', payload: { worker_id: 'w1' } });
export const PREPARING = event({ type: 'PREPARING', msg: 'Pulling the image' });
export const COMPLETED = event({ type: 'COMPLETED', msg: 'done', payload: { outputs: { a: 1 } } });
export const FAILED = event({ type: 'FAILED', msg: 'no', payload: { error_message: 'broke' } });
export const NODE_LOST = event({
  type: 'FAILED',
  msg: 'no',
  payload: { error_message: 'node lost', cause: 'infrastructure' },
});
export const RETRY_POLITELY = event({ type: 'RETRIED', msg: 'again' });

/** The run after commands that must all be accepted. */
export function after(run: Run, ...commands: readonly RunCommand[]): Run {
  return commands.reduce((present, next, i) => accepted(decideAt(present, next, later(i + 1))).run, run);
}

export function accepted(outcome: Outcome): Decision {
  assert.ok(!isRejected(outcome), `accepted, not ${JSON.stringify(outcome)}`);
  return outcome;
}

export function refusal(outcome: Outcome): string {
  assert.ok(isRejected(outcome), 'refused');
  return rejectionDetail('run-1', outcome.rejection);
}

export const IN_STATE: Record<RunState, Run> = {
  PENDING: FRESH,
  ASSIGNED: after(FRESH, ASSIGN),
  RUNNING: after(FRESH, ASSIGN, STARTED),
  CANCELLED: after(FRESH, command(userCancel())),
  COMPLETED: after(FRESH, ASSIGN, COMPLETED),
  FAILED: after({ ...FRESH, maxAttempts: 1 }, ASSIGN, FAILED),
};
