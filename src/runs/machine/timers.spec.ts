import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import fc from 'fast-check';
import { isClaimable, timerOf } from './timers.js';
import {
  accepted,
  after,
  ASSIGN,
  command,
  FAILED,
  FRESH,
  IN_STATE,
  later,
  NEW_RUN,
  NODE_LOST,
  PREPARING,
  refusal,
  STARTED,
  T0,
  decideAt,
} from './decide.fixtures.js';
import { isRejected, type RunCommand } from './run-command.js';
import { createRun, type NewRun, type Run } from './run.js';
import { MANUAL_RETRY, userCancel } from './run-event.js';

const dueAt = (run: Run): Date | null => timerOf(run)?.dueAt ?? null;

const ELAPSE: RunCommand = { type: 'elapse' };
/** An admin puts the run into execution. */
const RUN_NOW: RunCommand = { type: 'patch', keyName: 'k', state: 'ASSIGNED' };
const TIMED: Run = { ...FRESH, startWithinS: 10, attemptTimeoutS: 20 };
const PATIENT: Run = { ...FRESH, backoffS: 4, maxAttempts: 50 };

/** A failure of the present attempt, with the jitter of the pause that follows. */
function failing(run: Run, seconds: number, jitter: number): Run {
  const held = accepted(decideAt(run, ASSIGN, later(seconds))).run;
  return accepted(decideAt(held, FAILED, later(seconds), { jitter })).run;
}

describe('the start timeout', () => {
  test('fails a run that is not claimed in time, even if retries remain, and no earlier', () => {
    assert.deepEqual(dueAt(TIMED), later(10));
    refusal(decideAt({ ...TIMED, maxAttempts: 5 }, ELAPSE, later(9.999)));
    const { run } = accepted(decideAt({ ...TIMED, maxAttempts: 5 }, ELAPSE, later(10)));
    assert.deepEqual([run.state, run.attempt, run.cause, dueAt(run)], ['FAILED', 1, 'timeout', null]);
  });

  test('counts from the queue also for an assigned run, and ends with STARTED', () => {
    const assigned = accepted(decideAt(TIMED, ASSIGN, later(9))).run;
    assert.deepEqual(dueAt(assigned), later(10));
    assert.equal(accepted(decideAt(assigned, ELAPSE, later(11))).run.state, 'FAILED');
    const started = accepted(decideAt(assigned, STARTED, later(9))).run;
    assert.deepEqual(timerOf(started), { dueAt: later(29), kind: 'attempt_timeout' });
  });

  test('ends when the worker begins to prepare the attempt, and counts again for the next one', () => {
    const assigned = accepted(decideAt(TIMED, ASSIGN, later(1))).run;
    const preparing = accepted(decideAt(assigned, PREPARING, later(9))).run;
    assert.deepEqual(
      [preparing.state, preparing.preparingAt, dueAt(preparing)],
      ['ASSIGNED', later(9), null],
    );
    const again = accepted(decideAt(preparing, PREPARING, later(12))).run;
    assert.deepEqual(again.preparingAt, later(9));
    const lost = accepted(decideAt(again, NODE_LOST, later(20))).run;
    assert.deepEqual([lost.state, lost.preparingAt, dueAt(lost)], ['PENDING', null, later(30)]);
    const freed = accepted(decideAt(again, { type: 'patch', keyName: 'k', state: 'PENDING' }, later(20))).run;
    assert.deepEqual([freed.preparingAt, dueAt(freed)], [null, later(30)]);
  });

  test('starts again with the next attempt, and when an admin sets PENDING', () => {
    const failed = accepted(decideAt(TIMED, ELAPSE, later(10))).run;
    for (const next of [command(MANUAL_RETRY), { type: 'patch', keyName: 'k', state: 'PENDING' } as const])
      assert.deepEqual(dueAt(accepted(decideAt(failed, next, later(50))).run), later(60));
  });

  test('does not apply to a run that an admin put into execution without a worker', () => {
    const patched = accepted(
      decideAt(TIMED, { type: 'patch', keyName: 'k', state: 'ASSIGNED' }, later(1)),
    ).run;
    assert.equal(dueAt(patched), null);
  });
});

describe('the attempt timeout', () => {
  test('counts from the start of each attempt, whatever is reported later; the retry policy decides what follows', () => {
    const run: Run = { ...after({ ...TIMED, maxAttempts: 2 }, ASSIGN, STARTED), startedAt: later(2) };
    const again = accepted(decideAt(run, STARTED, later(15))).run;
    refusal(decideAt(again, ELAPSE, later(21.999)));
    const next = accepted(decideAt(again, ELAPSE, later(22))).run;
    assert.deepEqual([next.state, next.failures], ['PENDING', 1]);
    const second = accepted(decideAt(after(next, ASSIGN), STARTED, later(30))).run;
    assert.deepEqual(dueAt(second), later(50));
    assert.equal(accepted(decideAt(second, ELAPSE, later(50))).run.state, 'FAILED');
  });

  test('is a failure with the cause timeout for retry_on', () => {
    const running = after(TIMED, ASSIGN, STARTED);
    for (const [retryOn, state] of [
      ['timeout', 'PENDING'],
      ['exit,oom', 'FAILED'],
    ]) {
      assert.ok(retryOn);
      assert.equal(accepted(decideAt({ ...running, retryOn }, ELAPSE, later(60))).run.state, state);
    }
  });
});

describe('back-off', () => {
  test('keeps a failed run out of the queue, twice as long after every failure, up to its bound', () => {
    let run: Run = { ...PATIENT, maxBackoffS: 30 };
    const pauses: number[] = [];
    for (let n = 0, seconds = 1; n < 6; n += 1, seconds += 100) {
      run = failing(run, seconds, 1);
      assert.ok(run.notBefore);
      pauses.push((run.notBefore.getTime() - T0.getTime()) / 1000 - seconds);
      assert.equal(isClaimable(run), false);
      refusal(decideAt(run, ASSIGN, later(seconds)));
      run = accepted(decideAt(run, ELAPSE, run.notBefore)).run;
      assert.equal(isClaimable(run), true);
    }
    assert.deepEqual(pauses, [4, 8, 16, 30, 30, 30]);
  });

  test('lasts between half and the whole of the bound, depending on the jitter', () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 1, noNaN: true }), (jitter) => {
        const { notBefore } = failing(PATIENT, 1, jitter);
        const ms = (notBefore?.getTime() ?? 0) - later(1).getTime();
        assert.ok(ms >= 2000 && ms <= 4000);
        assert.equal(ms, Math.round(2000 + 2000 * jitter));
      }),
    );
  });

  test('lasts a day at most when the policy has no bound', () => {
    const run: Run = { ...PATIENT, backoffS: 86_400, failures: 40 };
    const { notBefore } = failing(run, 1, 1);
    assert.equal((notBefore?.getTime() ?? 0) - later(1).getTime(), 86_400_000);
  });

  test('ends with a cancel, a requested retry and a PATCH to PENDING, not with a new priority', () => {
    const run = failing(PATIENT, 1, 1);
    assert.equal(accepted(decideAt(run, command(userCancel()), later(2))).run.notBefore, null);
    const retried = accepted(decideAt(run, command(MANUAL_RETRY), later(2))).run;
    assert.deepEqual([retried.attempt, isClaimable(retried)], [3, true]);
    const patched = accepted(decideAt(run, { type: 'patch', keyName: 'k', state: 'PENDING' }, later(2))).run;
    assert.deepEqual([patched.attempt, isClaimable(patched)], [2, true]);
    const ranked = accepted(decideAt(run, { type: 'patch', keyName: 'k', priority: 7 }, later(2))).run;
    assert.deepEqual([ranked.priority, ranked.notBefore], [7, run.notBefore]);
  });

  test('suspends the start timeout until it has elapsed', () => {
    const run = failing({ ...PATIENT, startWithinS: 1 }, 1, 1);
    assert.deepEqual(dueAt(run), run.notBefore);
    const ready = accepted(decideAt(run, ELAPSE, later(5))).run;
    assert.deepEqual(ready.queuedAt, later(5));
    assert.deepEqual(dueAt(ready), later(6));
  });
});

describe('start_at', () => {
  const START = later(100);
  const created = (given: Partial<NewRun>): Run => createRun({ ...NEW_RUN, startAt: START, ...given }, T0);
  const PATCH_TO_PENDING: RunCommand = { type: 'patch', keyName: 'k', state: 'PENDING' };

  test('in the past counts as now', () => {
    for (const startAt of [T0, later(-1)]) {
      const run = created({ startAt });
      assert.deepEqual([isClaimable(run), timerOf(run), run.startAt], [true, null, startAt]);
    }
  });

  test('begins the time of the start timeout', () => {
    const run = created({ startWithinS: 10 });
    assert.deepEqual(dueAt(run), START);
    const ready = accepted(decideAt(run, ELAPSE, later(100.5))).run;
    assert.deepEqual(timerOf(ready), { dueAt: later(110.5), kind: 'start_timeout' });
  });

  test('and a back-off: the attempt waits for the later of the two', () => {
    const run: Run = { ...created({ backoffS: 20, maxAttempts: 9 }), notBefore: null };
    assert.deepEqual(timerOf(failing(run, 70, 1)), { dueAt: START, kind: 'start_at' });
    assert.deepEqual(timerOf(failing(run, 90, 1)), { dueAt: later(110), kind: 'back_off' });
  });

  test('is kept by any sequence of commands: no claim gets the run before', () => {
    const anyCommand = fc.constantFrom<RunCommand[]>(
      ASSIGN,
      ASSIGN,
      ELAPSE,
      STARTED,
      FAILED,
      NODE_LOST,
      command(MANUAL_RETRY),
      command(userCancel()),
      PATCH_TO_PENDING,
      RUN_NOW,
      { type: 'patch', keyName: 'k', state: 'FAILED' },
    );
    const anySequence = fc.array(fc.tuple(anyCommand, fc.integer({ min: 0, max: 20 })), { maxLength: 40 });
    fc.assert(
      fc.property(anySequence, fc.integer({ min: 0, max: 60 }), (sequence, backoffS) => {
        let run = created({ backoffS, maxAttempts: 5 });
        let seconds = 0;
        for (const [next, pause] of sequence) {
          seconds += pause;
          const outcome = decideAt(run, next, later(seconds));
          if (isRejected(outcome)) continue;
          assert.ok(next.type !== 'assign' || later(seconds) >= START, `claimed after ${seconds} s`);
          ({ run } = outcome);
          assert.ok(run.state === 'PENDING' || run.notBefore === null);
        }
      }),
    );
  });
});

describe('elapse', () => {
  test('is rejected for a run without a timer', () => {
    for (const run of Object.values(IN_STATE)) {
      assert.equal(dueAt(run), null);
      assert.match(refusal(decideAt(run, ELAPSE, later(1e6))), /no timer/);
    }
  });
});

const ASSIGN_ELSEWHERE: RunCommand = { type: 'assign', workerId: 'w2', gpuId: null };

describe('the avoidance of a worker', () => {
  const lost = after(FRESH, ASSIGN, NODE_LOST);
  const elapse: RunCommand = { type: 'elapse' };
  const inSeconds = (seconds: number): Date => new Date(lost.queuedAt.getTime() + seconds * 1000);

  test('ends ten seconds after the run may be claimed, and changes nothing else', () => {
    assert.deepEqual(timerOf(lost), { dueAt: inSeconds(10), kind: 'avoidance' });
    refusal(decideAt(lost, elapse, inSeconds(9.999)));
    const { run, entries } = accepted(decideAt(lost, elapse, inSeconds(10)));
    assert.deepEqual([run, entries], [{ ...lost, avoidedWorker: null }, []]);
    assert.equal(timerOf(run), null);
  });

  test('takes a minute after losses that the worker repeated', () => {
    const repeated = { ...after({ ...lost, avoidedWorker: null }, ASSIGN, NODE_LOST), notBefore: null };
    const due = new Date(repeated.queuedAt.getTime() + 60_000);
    assert.deepEqual(timerOf(repeated), { dueAt: due, kind: 'avoidance' });
  });

  test('begins at the end of a pause', () => {
    const twice = after(lost, ASSIGN_ELSEWHERE, NODE_LOST);
    const pauseEnd = twice.notBefore ?? assert.fail('it pauses');
    assert.deepEqual(timerOf(twice), { dueAt: pauseEnd, kind: 'back_off' });
    const { run } = accepted(decideAt(twice, elapse, pauseEnd));
    const due = new Date(pauseEnd.getTime() + 10_000);
    assert.deepEqual([run.avoidedWorker, timerOf(run)], ['w2', { dueAt: due, kind: 'avoidance' }]);
  });

  test('precedes a start timeout that is over later, and does not delay one that is over before', () => {
    const kinds = [9, 10, 11].map((startWithinS) => timerOf({ ...lost, startWithinS })?.kind);
    assert.deepEqual(kinds, ['start_timeout', 'start_timeout', 'avoidance']);
    const patient: Run = { ...lost, startWithinS: 11 };
    const { run } = accepted(decideAt(patient, elapse, inSeconds(10)));
    assert.deepEqual(timerOf(run), { dueAt: inSeconds(11), kind: 'start_timeout' });
  });

  test('has no timer once the run is assigned', () => {
    assert.equal(timerOf(after(lost, ASSIGN_ELSEWHERE)), null);
  });
});
