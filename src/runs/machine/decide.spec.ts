import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import {
  accepted,
  after,
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
import { MANUAL_RETRY, userCancel } from './run-event.js';
import { isInExecution, isTerminal, RUN_STATES } from './run-state.js';

for (const from of RUN_STATES) {
  test(`PATCH from ${from} to any state records no event and leaves an end and a worker only where they belong`, () => {
    for (const to of RUN_STATES) {
      const patch = { type: 'patch', keyName: 'admin', state: to } as const;
      const { run, entries } = accepted(decideAt(IN_STATE[from], patch, later(60)));
      assert.deepEqual([run.state, entries, run.finishedAt !== null], [to, [], isTerminal(to)]);
      if (to === 'PENDING')
        assert.deepEqual([run.workerId, run.assignedAt, run.startedAt], [null, null, null]);
      if (isInExecution(to)) assert.equal(run.workerId, isInExecution(from) ? IN_STATE[from].workerId : null);
    }
  });
}

test('PATCH opens an attempt of a run with files that a worker has had, unless it ends the run or leaves it with its worker', () => {
  for (const from of RUN_STATES) {
    for (const to of RUN_STATES) {
      const before: Run = { ...IN_STATE[from], hasFiles: true };
      const patch = { type: 'patch', keyName: 'admin', state: to, outputs: { a: 1 } } as const;
      const { run, entries, endedAttempt } = accepted(decideAt(before, patch, later(60)));
      const isOpened =
        before.assignedAt !== null && !isTerminal(to) && !(isInExecution(from) && isInExecution(to));
      assert.deepEqual([run.state, run.outputs, entries], [to, { a: 1 }, []]);
      assert.equal(run.attempt, before.attempt + Number(isOpened), `${from} to ${to}`);
      const ended = isOpened ? (isTerminal(from) ? from : 'CANCELLED') : undefined;
      assert.deepEqual([endedAttempt?.state, run.attemptId === before.attemptId], [ended, !isOpened]);
    }
  }
});

test('a manual retry starts a fresh budget of failures and of losses', () => {
  const used: Run = { ...IN_STATE.FAILED, failures: 3, reclaims: 3, repeatedLosses: 2, lossWorker: 'w1' };
  const { failures, reclaims, repeatedLosses, lossWorker } = after(used, command(MANUAL_RETRY));
  assert.deepEqual([failures, reclaims, repeatedLosses, lossWorker], [0, 0, 0, null]);
});

test('a retry that a worker reports, and one that is not forced, leave the counts as they are', () => {
  const running = { ...IN_STATE.RUNNING, maxAttempts: 3, failures: 2, reclaims: 2 };
  const forced = { type: 'RETRIED', msg: '', payload: { force: true } };
  for (const retry of [event(forced, { workerId: 'w1', attempt: running.attempt }), RETRY_POLITELY]) {
    const { failures, reclaims } = after(running, retry);
    assert.deepEqual([failures, reclaims], [2, 2]);
  }
});

test('a forced retry with fencing headers is rejected as locked on a locked run', () => {
  const fenced = event({ type: 'RETRIED', msg: '', payload: { force: true } }, { workerId: 'w1' });
  assert.equal(
    refusal(decideAt(IN_STATE.COMPLETED, fenced, later(9))),
    'Run is already in terminal state COMPLETED',
  );
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
