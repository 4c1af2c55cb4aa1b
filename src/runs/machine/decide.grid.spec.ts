import assert from 'node:assert/strict';
import { test } from 'vitest';
import {
  accepted,
  ASSIGN,
  command,
  COMPLETED,
  event,
  FAILED,
  IN_STATE,
  later,
  NODE_LOST,
  RETRY_POLITELY,
  STARTED,
  decideAt,
} from './decide.fixtures.js';
import { rejectionDetail } from '../run.errors.js';
import { isRejected, type RunCommand } from './run-command.js';
import type { Run } from './run.js';
import { MANUAL_RETRY, userCancel } from './run-event.js';
import { RUN_STATES, type RunState } from './run-state.js';
import { TRANSITIONS } from './transitions.js';

const LOCKED = (state: RunState): string => `Run is already in terminal state ${state}`;
const NOT_ASSIGNED = "Run 'run-1' is not assigned to a worker";

const RECLAIM: RunCommand = { type: 'reclaim', workerId: 'w1', attempt: 1, lastHeartbeatAt: null };

/** What each command does in each state: the state afterwards, or the refusal. Written out, not derived. */
const GRID: readonly {
  name: string;
  command: RunCommand;
  run?: Partial<Run>;
  expect: Record<RunState, string>;
}[] = [
  {
    name: 'CLAIM',
    command: ASSIGN,
    expect: {
      ...everywhere("Run 'run-1' is not pending"),
      PENDING: 'ASSIGNED',
    },
  },
  {
    name: 'CLAIM before start_at',
    command: ASSIGN,
    run: { startAt: later(61), notBefore: later(61) },
    expect: everywhere("Run 'run-1' is not pending"),
  },
  { name: 'STARTED', command: STARTED, expect: inExecution('RUNNING') },
  { name: 'COMPLETED', command: COMPLETED, expect: inExecution('COMPLETED') },
  { name: 'FAILED with retries left', command: FAILED, expect: inExecution('PENDING') },
  {
    name: 'FAILED by a cause that is not retried',
    command: FAILED,
    run: { retryOn: 'oom,exit:75' },
    expect: inExecution('FAILED'),
  },
  { name: 'FAILED by the infrastructure', command: NODE_LOST, expect: inExecution('PENDING') },
  { name: 'RECLAIMED', command: RECLAIM, expect: inExecution('PENDING') },
  {
    name: 'CANCELLED',
    command: command(userCancel()),
    expect: whileLive('CANCELLED', 'CANCELLED', 'CANCELLED'),
  },
  {
    name: 'PROGRESS',
    command: event({ type: 'PROGRESS', msg: 40 }),
    expect: whileLive('PENDING', 'ASSIGNED', 'RUNNING'),
  },
  {
    name: 'a custom event',
    command: event({ type: 'CHECKPOINT', msg: '' }),
    expect: whileLive('PENDING', 'ASSIGNED', 'RUNNING'),
  },
  {
    name: 'RETRIED, forced',
    command: command(MANUAL_RETRY),
    expect: everywhere('PENDING'),
  },
  {
    name: 'RETRIED, not forced',
    command: RETRY_POLITELY,
    expect: whileLive('PENDING', 'PENDING', 'PENDING'),
  },
];

function everywhere(text: string): Record<RunState, string> {
  return { PENDING: text, ASSIGNED: text, RUNNING: text, CANCELLED: text, COMPLETED: text, FAILED: text };
}

function locked(): Pick<Record<RunState, string>, 'CANCELLED' | 'COMPLETED' | 'FAILED'> {
  return { CANCELLED: LOCKED('CANCELLED'), COMPLETED: LOCKED('COMPLETED'), FAILED: LOCKED('FAILED') };
}

function inExecution(to: RunState): Record<RunState, string> {
  return { PENDING: NOT_ASSIGNED, ASSIGNED: to, RUNNING: to, ...locked() };
}

function whileLive(pending: RunState, assigned: RunState, running: RunState): Record<RunState, string> {
  return { PENDING: pending, ASSIGNED: assigned, RUNNING: running, ...locked() };
}

for (const { name, command: given, run: changed, expect } of GRID) {
  for (const state of RUN_STATES) {
    test(`${name} in state ${state}: ${expect[state]}`, () => {
      const run = { ...IN_STATE[state], ...changed };
      assert.equal(run.state, state);
      const outcome = decideAt(run, given, later(60));
      if (isRejected(outcome)) assert.equal(rejectionDetail('run-1', outcome.rejection), expect[state]);
      else assert.equal(outcome.run.state, expect[state]);
    });
  }
}

/** A command for each row of the table; a run that it leads out of each state of the row. */
const ROWS: Record<string, { command: RunCommand; run?: Partial<Run> }> = {
  CLAIM: { command: ASSIGN },
  STARTED: { command: STARTED },
  COMPLETED: { command: COMPLETED },
  'FAILED, retries remain': { command: FAILED },
  'FAILED, no retries remain': { command: FAILED, run: { maxAttempts: 1 } },
  'FAILED, not in retry_on': { command: FAILED, run: { retryOn: 'oom,exit:75' } },
  CANCELLED: { command: command(userCancel()) },
  'RETRIED, forced': { command: command(MANUAL_RETRY) },
  'RETRIED, not forced, retries remain': { command: RETRY_POLITELY },
  'RECLAIMED, losses remain': { command: RECLAIM },
  'RECLAIMED, no losses remain': { command: RECLAIM, run: { reclaims: 3 } },
  'INFRASTRUCTURE FAILURE, losses remain': { command: NODE_LOST, run: { maxAttempts: 1 } },
  'INFRASTRUCTURE FAILURE, no losses remain': {
    command: NODE_LOST,
    run: { reclaims: 3 },
  },
  'START TIMEOUT': { command: { type: 'elapse' }, run: { startWithinS: 10 } },
};

for (const { trigger, when, from, to } of TRANSITIONS) {
  const row = [trigger, ...(when === undefined ? [] : [when])].join(', ');
  for (const state of from) {
    test(`the transition ${row} leads from ${state} to ${to}`, () => {
      const { command: given, run } = ROWS[row] ?? assert.fail(`a command for ${row}`);
      assert.equal(accepted(decideAt({ ...IN_STATE[state], ...run }, given, later(60))).run.state, to);
    });
  }
}
