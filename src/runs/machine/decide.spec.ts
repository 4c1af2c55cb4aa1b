import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import {
  accepted,
  after,
  ASSIGN,
  command,
  COMPLETED,
  event,
  FAILED,
  FRESH,
  IN_STATE,
  later,
  refusal,
  RETRY_POLITELY,
  STARTED,
  decideAt,
} from './decide.fixtures.js';
import { isRejected, type RunCommand } from './run-command.js';
import type { Run, TimelineEntry } from './run.js';
import { MANUAL_RETRY, userCancel, type ReportedEvent } from './run-event.js';
import { isInExecution, isTerminal, RUN_STATES, type RunState } from './run-state.js';
import { findTransition } from './transitions.js';

for (const from of RUN_STATES) {
  for (const to of RUN_STATES) {
    test(`PATCH from ${from} to ${to} is accepted, records no event and sets finished_at exactly in terminal states`, () => {
      const { run, entries } = accepted(
        decideAt(IN_STATE[from], { type: 'patch', keyName: 'admin', state: to }, later(60)),
      );
      assert.equal(run.state, to);
      assert.deepEqual(entries, []);
      assert.equal(run.finishedAt !== null, isTerminal(to));
      if (to === 'PENDING')
        assert.deepEqual([run.workerId, run.assignedAt, run.startedAt], [null, null, null]);
      if (isInExecution(to) && !isInExecution(from)) assert.equal(run.workerId, null);
    });
  }
}

test('a run that PATCH put into execution is assigned to the first worker that reports STARTED', () => {
  const orphan = accepted(
    decideAt(FRESH, { type: 'patch', keyName: 'admin', state: 'RUNNING' }, later(1)),
  ).run;
  const fenced = event(
    { type: 'STARTED', msg: 'go', payload: { worker_id: 'w2' } },
    { workerId: 'w2', attempt: 1 },
  );
  const taken = accepted(decideAt(orphan, fenced, later(2))).run;
  assert.equal(taken.workerId, 'w2');
  assert.equal(refusal(decideAt(taken, STARTED, later(3))), "Run 'run-1' is not assigned to worker 'w1'");
});

test('FAILED with retries left ends the attempt, records an automatic retry and queues a fresh attempt', () => {
  const running = after(FRESH, ASSIGN, STARTED, event({ type: 'PROGRESS', msg: 70 }));
  const { run, entries, endedAttempt } = accepted(decideAt(running, FAILED, later(60)));
  assert.deepEqual(
    entries.map(({ type, attempt, msg, payload, state, index }) => ({
      type,
      attempt,
      msg,
      payload,
      state,
      index,
    })),
    [
      {
        type: 'FAILED',
        attempt: 1,
        msg: 'no',
        payload: { error_message: 'broke' },
        state: 'PENDING',
        index: 2,
      },
      {
        type: 'RETRIED',
        attempt: 1,
        msg: 'Automatic retry',
        payload: { force: false },
        state: 'PENDING',
        index: 3,
      },
    ],
  );
  assert.equal(endedAttempt?.state, 'FAILED');
  assert.equal(endedAttempt?.errorMessage, 'broke');
  assert.equal(endedAttempt?.progress, 70);
  assert.deepEqual(endedAttempt?.finishedAt, later(60));
  assert.deepEqual(
    {
      attempt: run.attempt,
      attemptId: run.attemptId,
      progress: run.progress,
      workerId: run.workerId,
      gpuId: run.gpuId,
      outputs: run.outputs,
      errorMessage: run.errorMessage,
      failures: run.failures,
      startedAt: run.startedAt,
      queuedAt: run.queuedAt,
    },
    {
      attempt: 2,
      attemptId: 'attempt-next',
      progress: 0,
      workerId: null,
      gpuId: null,
      outputs: null,
      errorMessage: null,
      failures: 1,
      startedAt: null,
      queuedAt: later(60),
    },
  );
});

test('the last allowed failure ends the run and keeps its message', () => {
  const policy = { ...FRESH, maxAttempts: 2 };
  const once = after(policy, ASSIGN, FAILED);
  const { run, entries, endedAttempt } = accepted(decideAt(after(once, ASSIGN), FAILED, later(60)));
  assert.equal(run.state, 'FAILED');
  assert.equal(run.attempt, 2);
  assert.equal(run.errorMessage, 'broke');
  assert.equal(entries.length, 1);
  assert.equal(endedAttempt, undefined);
});

test('a manual retry starts a fresh budget of failures and of losses', () => {
  const used = after(
    { ...FRESH, maxAttempts: 3, reclaims: 3 },
    ASSIGN,
    FAILED,
    ASSIGN,
    FAILED,
    ASSIGN,
    FAILED,
  );
  assert.deepEqual([used.state, used.failures, used.reclaims], ['FAILED', 3, 3]);
  const again = after(used, command(MANUAL_RETRY));
  assert.deepEqual([again.state, again.attempt, again.failures, again.reclaims], ['PENDING', 4, 0, 0]);
  const failing = after(again, ASSIGN, FAILED, ASSIGN, FAILED);
  assert.equal(failing.state, 'PENDING', 'two of three attempts have failed');
  assert.equal(after(failing, ASSIGN, FAILED).state, 'FAILED');
  assert.equal(after(again, RETRY_POLITELY).failures, 0);
});

test('a retry that a worker reports, and one that is not forced, leave the counts as they are', () => {
  const running = { ...IN_STATE.RUNNING, maxAttempts: 3, failures: 2, reclaims: 2 };
  const forced = { type: 'RETRIED', msg: '', payload: { force: true } };
  for (const retry of [event(forced, { workerId: 'w1', attempt: running.attempt }), RETRY_POLITELY]) {
    const { failures, reclaims } = after(running, retry);
    assert.deepEqual([failures, reclaims], [2, 2]);
  }
});

test('a retry of an attempt that had not ended cancels that attempt; one that had ended keeps its state', () => {
  assert.equal(
    accepted(decideAt(IN_STATE.RUNNING, command(MANUAL_RETRY), later(9))).endedAttempt?.state,
    'CANCELLED',
  );
  assert.equal(
    accepted(decideAt(IN_STATE.COMPLETED, command(MANUAL_RETRY), later(9))).endedAttempt?.state,
    'COMPLETED',
  );
});

test('a run has 1,000 attempts at most: retry is refused, failure ends it', () => {
  const last = { ...after(FRESH, ASSIGN), attempt: 1000, maxAttempts: 1000 };
  assert.equal(
    refusal(decideAt(last, command(MANUAL_RETRY), later(9))),
    "Run 'run-1' has reached the limit of 1000 attempts",
  );
  assert.equal(accepted(decideAt(last, FAILED, later(9))).run.state, 'FAILED');
});

test('COMPLETED sets progress 100 and replaces the outputs only if it contains some', () => {
  const plain = accepted(decideAt(IN_STATE.RUNNING, event({ type: 'COMPLETED', msg: '' }), later(9))).run;
  assert.equal(plain.progress, 100);
  assert.equal(plain.outputs, undefined);
  assert.deepEqual(IN_STATE.COMPLETED.outputs, { a: 1 });
});

test('a repeated STARTED keeps the first start time', () => {
  const again = accepted(decideAt(IN_STATE.RUNNING, STARTED, later(60))).run;
  assert.deepEqual(again.startedAt, IN_STATE.RUNNING.startedAt);
});

for (const reported of ['STARTED', 'PROGRESS', 'COMPLETED', 'FAILED', 'CHECKPOINT', 'CANCELLED']) {
  const body: ReportedEvent = { type: reported, msg: 1, payload: { worker_id: 'w1' } };
  test(`${reported} by another worker or for another attempt is rejected`, () => {
    const run = IN_STATE.RUNNING;
    assert.equal(
      refusal(decideAt(run, event(body, { workerId: 'w2' }), later(9))),
      "Run 'run-1' is not assigned to worker 'w2'",
    );
    assert.equal(
      refusal(decideAt(run, event(body, { workerId: 'w1', attempt: 2 }), later(9))),
      "Run 'run-1' attempt 2 is not current",
    );
    assert.ok(!isRejected(decideAt(run, event(body, { workerId: 'w1', attempt: 1 }), later(9))));
  });
}

test('a locked run is rejected as locked before fencing, and fencing precedes "not in execution"', () => {
  assert.equal(
    refusal(decideAt(IN_STATE.COMPLETED, event({ type: 'FAILED', msg: '' }, { workerId: 'w2' }), later(9))),
    'Run is already in terminal state COMPLETED',
  );
  assert.equal(
    refusal(decideAt(FRESH, event({ type: 'FAILED', msg: '' }, { workerId: 'w2' }), later(9))),
    "Run 'run-1' is not assigned to worker 'w2'",
  );
});

test('a forced retry with fencing headers is rejected as locked on a locked run', () => {
  const fenced = event({ type: 'RETRIED', msg: '', payload: { force: true } }, { workerId: 'w1' });
  assert.equal(
    refusal(decideAt(IN_STATE.COMPLETED, fenced, later(9))),
    'Run is already in terminal state COMPLETED',
  );
});

test('the time of a run never goes back, even if the clock does', () => {
  const { run, entries } = accepted(
    decideAt(IN_STATE.RUNNING, event({ type: 'NOTE', msg: '' }), new Date(0)),
  );
  assert.deepEqual(run.updatedAt, IN_STATE.RUNNING.updatedAt);
  assert.deepEqual(entries[0]?.t, IN_STATE.RUNNING.updatedAt);
});

const anyCommand: fc.Arbitrary<RunCommand> = fc.oneof(
  fc.constantFrom(
    STARTED,
    COMPLETED,
    FAILED,
    RETRY_POLITELY,
    command(MANUAL_RETRY),
    command(userCancel()),
    event({ type: 'PROGRESS', msg: 40 }),
    event({ type: 'CHECKPOINT', msg: '' }),
  ),
  fc.record({
    type: fc.constant('assign' as const),
    workerId: fc.constantFrom('w1', 'w2'),
    gpuId: fc.constantFrom(null, 0),
  }),
);

test('any sequence of commands keeps timeline and attempts without gaps, and the timeline determines the state', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(anyCommand, fc.integer({ min: -5, max: 5 })), { maxLength: 60 }),
      fc.integer({ min: 1, max: 4 }),
      (steps, maxAttempts) => {
        let run: Run = { ...FRESH, maxAttempts };
        let clock = 100;
        const timeline: TimelineEntry[] = [];
        const attempts: number[] = [];
        for (const [next, seconds] of steps) {
          clock += seconds;
          const before = run;
          const outcome = decideAt(run, next, later(clock));
          if (isRejected(outcome)) continue;
          run = outcome.run;
          timeline.push(...outcome.entries);
          if (outcome.endedAttempt) attempts.push(outcome.endedAttempt.attempt);
          assert.ok(run.updatedAt >= before.updatedAt);
          assert.equal(run.finishedAt !== null, isTerminal(run.state));
          assert.ok(run.state !== 'PENDING' || run.workerId === null);
          assert.ok(!isInExecution(run.state) || run.workerId !== null);
        }
        assert.deepEqual(
          timeline.map(({ index }) => index),
          timeline.map((_, i) => i),
        );
        assert.equal(run.eventCount, timeline.length);
        assert.deepEqual(
          [...attempts, run.attempt],
          [...attempts, run.attempt].map((_, i) => i + 1),
        );
        const told = timeline.at(-1)?.state ?? 'PENDING';
        assert.ok(run.state === told || (told === 'PENDING' && run.state === 'ASSIGNED'));
        timeline.forEach(({ t }, i) => assert.ok(i === 0 || t >= (timeline[i - 1]?.t ?? t)));
      },
    ),
    { numRuns: 2000 },
  );
});

test('every state can be reached and every transition leads to where the table says', () => {
  const reached = new Set<RunState>(['PENDING']);
  for (const state of RUN_STATES) assert.equal(IN_STATE[state].state, state);
  for (const state of RUN_STATES) {
    const transition = findTransition(state, 'CLAIM');
    if (transition) reached.add(transition.to);
  }
  for (const given of [STARTED, COMPLETED, FAILED, command(userCancel())]) {
    for (const state of RUN_STATES) {
      const outcome = decideAt({ ...IN_STATE[state], maxAttempts: 1 }, given, later(99));
      if (!isRejected(outcome)) reached.add(outcome.run.state);
    }
  }
  assert.deepEqual([...reached].toSorted(), [...RUN_STATES].toSorted());
});
