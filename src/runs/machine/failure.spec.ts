import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { JsonObject } from '@longshore/common/json/json-value';
import {
  accepted,
  after,
  ASSIGN,
  event,
  FAILED,
  FRESH,
  IN_STATE,
  later,
  NODE_LOST,
  refusal,
  decideAt,
} from './decide.fixtures.js';
import type { RunLimits, RunCommand } from './run-command.js';
import { MAX_ATTEMPTS_OF_A_RUN, type Run } from './run.js';

const failing = (payload: JsonObject): RunCommand => event({ type: 'FAILED', msg: '', payload });

const RECLAIM = {
  type: 'reclaim',
  workerId: 'w1',
  attempt: 1,
  lastHeartbeatAt: later(2),
} as const satisfies RunCommand;

describe('reclaim', () => {
  test('records null for a worker that never sent a heartbeat', () => {
    const { entries } = accepted(
      decideAt(IN_STATE.ASSIGNED, { ...RECLAIM, lastHeartbeatAt: null }, later(60)),
    );
    assert.deepEqual(entries[0]?.payload, { worker_id: 'w1', last_heartbeat_at: null });
  });

  test('uses up no retries, and failures use up no losses', () => {
    const lost = accepted(decideAt(IN_STATE.RUNNING, RECLAIM, later(60))).run;
    assert.deepEqual({ failures: lost.failures, reclaims: lost.reclaims }, { failures: 0, reclaims: 1 });
    const failed = after(lost, ASSIGN, FAILED);
    assert.deepEqual({ failures: failed.failures, reclaims: failed.reclaims }, { failures: 1, reclaims: 1 });
  });

  test('opens another attempt as often as allowed; the next loss fails the run', () => {
    let run: Run = FRESH;
    for (let loss = 1; loss <= 3; loss += 1) {
      run = { ...after(run, ASSIGN, { ...RECLAIM, attempt: loss }), notBefore: null };
      assert.equal(run.state, 'PENDING');
    }
    const {
      run: last,
      entries,
      endedAttempt,
    } = accepted(decideAt(after(run, ASSIGN), { ...RECLAIM, attempt: 4 }, later(60)));
    assert.equal(last.state, 'FAILED');
    assert.equal(last.reclaims, 4);
    assert.equal(last.errorMessage, "Worker 'w1' lost");
    assert.ok(last.finishedAt);
    assert.deepEqual(
      entries.map(({ type, state }) => ({ type, state })),
      [{ type: 'RECLAIMED', state: 'FAILED' }],
    );
    assert.equal(endedAttempt, undefined);
  });

  test('is counted anew after an attempt that reported progress', () => {
    const progress = event({ type: 'PROGRESS', msg: 40 });
    let run: Run = FRESH;
    for (let loss = 1; loss <= 6; loss += 1) {
      run = after(run, ASSIGN, progress, { ...RECLAIM, attempt: loss });
      assert.deepEqual([run.state, run.reclaims], ['PENDING', 1], `loss ${loss}`);
    }
    for (let loss = 7; loss <= 8; loss += 1) {
      run = { ...after(run, ASSIGN, { ...RECLAIM, attempt: loss }), notBefore: null };
    }
    assert.deepEqual([run.state, run.reclaims], ['PENDING', 3]);
    assert.equal(after(run, ASSIGN, { ...RECLAIM, attempt: 9 }).state, 'FAILED');
  });

  test('is not counted anew for an attempt that only started, or reported a progress of 0', () => {
    const started = event({ type: 'STARTED', msg: '', payload: { worker_id: 'w1' } });
    const lost: Run = { ...FRESH, reclaims: 2 };
    assert.equal(after(lost, ASSIGN, started, RECLAIM).reclaims, 3);
    assert.equal(after(lost, ASSIGN, event({ type: 'PROGRESS', msg: 0 }), RECLAIM).reclaims, 3);
  });

  test('fails a run at its last allowed attempt', () => {
    const run: Run = { ...IN_STATE.RUNNING, attempt: MAX_ATTEMPTS_OF_A_RUN };
    const command = { ...RECLAIM, attempt: MAX_ATTEMPTS_OF_A_RUN };
    assert.equal(accepted(decideAt(run, command, later(9))).run.state, 'FAILED');
  });

  test('is rejected for another worker or another attempt', () => {
    const run = IN_STATE.RUNNING;
    assert.match(
      refusal(decideAt(run, { ...RECLAIM, workerId: 'w2' }, later(9))),
      /not assigned to worker 'w2'/,
    );
    assert.match(refusal(decideAt(run, { ...RECLAIM, attempt: 2 }, later(9))), /attempt 2 is not current/);
    const again = after(run, RECLAIM, ASSIGN);
    assert.match(refusal(decideAt(again, RECLAIM, later(9))), /attempt 1 is not current/);
  });

  test('is rejected for a run without a worker', () => {
    const nobodys: Run = { ...IN_STATE.ASSIGNED, workerId: null };
    assert.match(refusal(decideAt(nobodys, RECLAIM, later(9))), /not assigned to worker/);
  });
});

describe('a failure', () => {
  test('keeps its cause and exit code with the attempt; the next attempt has neither', () => {
    const payload = { error_message: 'exit 137', cause: 'oom', exit_code: 137 };
    const { run, endedAttempt } = accepted(
      decideAt(IN_STATE.RUNNING, event({ type: 'FAILED', msg: '', payload }), later(9)),
    );
    assert.deepEqual([endedAttempt?.cause, endedAttempt?.exitCode], ['oom', 137]);
    assert.deepEqual([run.cause, run.exitCode, run.failures, run.reclaims], [null, null, 1, 0]);
  });
});

describe('retry_on', () => {
  const ON_OOM: Run = { ...IN_STATE.RUNNING, retryOn: 'oom,exit:75' };

  test('lets a failure that it names be retried, by its cause or its exit code, while retries remain', () => {
    for (const payload of [
      { cause: 'oom', exit_code: 137 },
      { cause: 'exit', exit_code: 75 },
    ]) {
      assert.equal(accepted(decideAt(ON_OOM, failing(payload), later(9))).run.state, 'PENDING');
      const last: Run = { ...ON_OOM, failures: ON_OOM.maxAttempts - 1 };
      assert.equal(accepted(decideAt(last, failing(payload), later(9))).run.state, 'FAILED');
    }
  });

  test('sees an absent cause as error', () => {
    const onError: Run = { ...ON_OOM, retryOn: 'error' };
    assert.equal(accepted(decideAt(ON_OOM, failing({}), later(9))).run.state, 'FAILED');
    assert.equal(accepted(decideAt(onError, failing({}), later(9))).run.state, 'PENDING');
  });

  test('does not concern failures of the infrastructure, reclaims and requested retries', () => {
    const never: Run = { ...IN_STATE.RUNNING, retryOn: '' };
    for (const command of [NODE_LOST, RECLAIM, event({ type: 'RETRIED', msg: '' })]) {
      assert.equal(accepted(decideAt(never, command, later(9))).run.state, 'PENDING');
    }
  });
});

/** The state of a run after its fourth, fifth, ... loss. */
function statesAfterLosses(
  command: typeof NODE_LOST | typeof RECLAIM,
  limits: Partial<RunLimits>,
  policy: Partial<Run>,
): string[] {
  return [4, 5, 6, 7, 8, 9].map((losses) => {
    const run: Run = { ...IN_STATE.RUNNING, maxAttempts: 1, ...policy, reclaims: losses - 1 };
    return accepted(decideAt(run, command, later(9), { limits })).run.state;
  });
}

describe('a failure of the infrastructure', () => {
  test('uses up no retry, records FAILED and a retry, and leaves the next attempt claimable at once elsewhere', () => {
    const once: Run = { ...IN_STATE.RUNNING, maxAttempts: 1, backoffS: 100 };
    const { run, entries, endedAttempt } = accepted(decideAt(once, NODE_LOST, later(9)));
    assert.deepEqual(
      [run.state, run.attempt, run.failures, run.reclaims, run.notBefore, run.workerId, run.avoidedWorker],
      ['PENDING', 2, 0, 1, null, null, 'w1'],
    );
    assert.deepEqual(
      entries.map(({ type, attempt, state }) => [type, attempt, state]),
      [
        ['FAILED', 1, 'PENDING'],
        ['RETRIED', 1, 'PENDING'],
      ],
    );
    assert.deepEqual([endedAttempt?.state, endedAttempt?.cause], ['FAILED', 'infrastructure']);
  });

  test('fails a run at its last allowed attempt', () => {
    const run: Run = { ...IN_STATE.RUNNING, attempt: MAX_ATTEMPTS_OF_A_RUN };
    assert.equal(accepted(decideAt(run, NODE_LOST, later(9))).run.state, 'FAILED');
  });

  for (const [title, command] of [
    ['failure of the infrastructure', NODE_LOST],
    ['reclaim', RECLAIM],
  ] as const) {
    test(`pauses the run from the second loss on, for minutes in the end, at a ${title}`, () => {
      const pauses = [1, 2, 3, 4, 5, 6, 7, 900].map((losses) => {
        const run: Run = { ...IN_STATE.RUNNING, reclaims: losses - 1 };
        const policy = { limits: { maxReclaims: 1000 }, jitter: 0 };
        const { notBefore } = accepted(decideAt(run, command, later(9), policy)).run;
        return notBefore === null ? 0 : (notBefore.getTime() - later(9).getTime()) / 1000;
      });
      assert.deepEqual(pauses, [0, 5, 15, 45, 120, 300, 300, 300]);
    });

    const states = (lossPatience: number, policy: Partial<Run> = {}): string[] =>
      statesAfterLosses(command, { lossPatience }, policy);

    test(`does not end the run before its patience is over: ${title}`, () => {
      const [pending, failed] = ['PENDING', 'FAILED'];
      // The pauses before the fourth loss are 20 s, then 65, 185, 485, 785 and 1085 s.
      assert.deepEqual(states(0), [failed, failed, failed, failed, failed, failed]);
      assert.deepEqual(states(66), [pending, pending, failed, failed, failed, failed]);
      assert.deepEqual(states(900), [pending, pending, pending, pending, pending, failed]);
      // 1 + 2 + 4 minutes.
      const policy = { maxAttempts: 4, backoffS: 60 };
      assert.deepEqual(states(1, policy), [pending, pending, pending, failed, failed, failed]);
      assert.deepEqual(
        states(1, { ...policy, maxBackoffS: 1 }),
        Array.from({ length: 6 }, () => failed),
      );
      assert.deepEqual(states(0, policy), [failed, failed, failed, failed, failed, failed]);
    });
  }

  test('leaves a run that is to be tried for hours its retries during an outage of hours', () => {
    let run: Run = { ...FRESH, maxAttempts: 10, backoffS: 60 };
    let waitedMs = 0;
    const limits = { lossPatience: 900 };
    while (waitedMs < 8 * 3_600_000) {
      const decision = decideAt(after(run, ASSIGN), NODE_LOST, later(2), { limits });
      const { notBefore, ...lost } = accepted(decision).run;
      assert.deepEqual([lost.state, lost.failures], ['PENDING', 0]);
      waitedMs += notBefore === null ? 0 : notBefore.getTime() - lost.updatedAt.getTime();
      run = { ...lost, notBefore: null };
    }
    assert.ok(run.reclaims < 120, `${run.reclaims} attempts`);
  });

  test('is forgotten by the attempt after the next one: only the next assignment avoids the worker', () => {
    const run = after(FRESH, ASSIGN, NODE_LOST, ASSIGN, FAILED);
    assert.deepEqual([run.attempt, run.avoidedWorker], [3, null]);
  });
});

test('failures of the infrastructure are counted anew after progress, as losses are', () => {
  const progress = event({ type: 'PROGRESS', msg: 1 });
  const run: Run = { ...FRESH, reclaims: 3 };
  assert.equal(after(run, ASSIGN, NODE_LOST).state, 'FAILED');
  const { state, reclaims } = after(run, ASSIGN, progress, NODE_LOST);
  assert.deepEqual([state, reclaims], ['PENDING', 1]);
});

function times(count: number, ...workers: readonly string[]): string[] {
  return Array.from({ length: count }, () => workers).flat();
}

describe('losses that one worker repeats', () => {
  const COMMANDS = {
    'failures of the infrastructure': (): RunCommand => NODE_LOST,
    reclaims: ({ attempt }: Run, workerId: string): RunCommand => ({ ...RECLAIM, workerId, attempt }),
  };
  const PATIENT = { limits: { lossPatience: 900 }, jitter: 0 };

  /** A run that the workers lost, one after the other. */
  function lostBy(
    workers: readonly string[],
    lose: (run: Run, workerId: string) => RunCommand,
    policy: Parameters<typeof decideAt>[3] = PATIENT,
    run = FRESH,
  ): Run {
    return workers.reduce<Run>((before, workerId) => {
      assert.equal(before.state, 'PENDING');
      const held = after({ ...before, notBefore: null }, { type: 'assign', workerId, gpuId: null });
      return accepted(decideAt(held, lose(held, workerId), later(9), policy)).run;
    }, run);
  }

  for (const [title, lose] of Object.entries(COMMANDS)) {
    test.each([
      // The pauses before the ninth loss are 1085 s, before the eighteenth 3785 s.
      { workers: times(17, 'a'), limits: {}, expect: ['PENDING', 17, 16] },
      { workers: times(18, 'a'), limits: {}, expect: ['FAILED', 18, 17] },
      { workers: times(18, 'a'), limits: { maxReclaims: 0 }, expect: ['FAILED', 18, 17] },
      { workers: times(4, 'a', 'b'), limits: {}, expect: ['PENDING', 8, 0] },
      { workers: [...times(4, 'a', 'b'), 'a'], limits: {}, expect: ['FAILED', 9, 0] },
      { workers: [...times(10, 'a'), 'b', 'a'], limits: {}, expect: ['PENDING', 12, 9] },
      { workers: [...times(10, 'a'), 'b', 'a', 'c'], limits: {}, expect: ['FAILED', 13, 9] },
      // The number alone decides.
      { workers: times(4, 'a'), limits: { lossPatience: 0 }, expect: ['FAILED', 4, 3] },
    ])(`count once: after ${title} with $workers and $limits`, ({ workers, limits, expect }) => {
      const run = lostBy(workers, lose, { ...PATIENT, limits: { ...PATIENT.limits, ...limits } });
      assert.deepEqual([run.state, run.reclaims, run.repeatedLosses], expect);
    });

    test(`let the next attempt avoid the worker: ${title}`, () => {
      assert.equal(lostBy(['a', 'a'], lose).avoidedWorker, 'a');
    });

    test(`are none after progress: ${title}`, () => {
      const run = lostBy(['a', 'a'], lose);
      const progress = event({ type: 'PROGRESS', msg: 1 });
      const again = lostBy(['a'], lose, PATIENT, after(run, progress));
      assert.deepEqual([again.reclaims, again.repeatedLosses, again.lossWorker], [1, 0, 'a']);
    });
  }

  test('are only those of a worker that is known', () => {
    const nobodys: Run = { ...IN_STATE.ASSIGNED, workerId: null, reclaims: 1 };
    const { reclaims, repeatedLosses } = after(nobodys, NODE_LOST);
    assert.deepEqual([reclaims, repeatedLosses], [2, 0]);
  });

  test('leave a run claimable by every worker after the first reclaim', () => {
    assert.equal(lostBy(['a'], COMMANDS.reclaims).avoidedWorker, null);
    assert.equal(lostBy(['a', 'b'], COMMANDS.reclaims).avoidedWorker, null);
  });
});
