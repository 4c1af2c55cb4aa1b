import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { accepted, after, ASSIGN, event, FRESH, later, STARTED, decideAt } from './decide.fixtures.js';
import type { Run } from './run.js';

/** Assigned at 1 s, and RUNNING since 2 s as the service saw it. */
const RUNNING: Run = after(FRESH, ASSIGN, STARTED);

const at = (seconds: number): string => later(seconds).toISOString();

/** The run after an event that arrives at 100 s. */
function decided(run: Run, type: string, payload: Record<string, string>) {
  return accepted(decideAt(run, event({ type, msg: '', payload }), later(100)));
}

const ENDS = ['COMPLETED', 'FAILED'] as const;

describe('the times of a run', () => {
  test('of an attempt that is retried are those of its container, and its back-off begins with the report', () => {
    for (const cause of ['exit', 'infrastructure']) {
      const { run, endedAttempt } = decided({ ...RUNNING, backoffS: 10 }, 'FAILED', {
        cause,
        started_at: at(3),
        finished_at: at(40),
      });
      assert.deepEqual([endedAttempt?.startedAt, endedAttempt?.finishedAt], [later(3), later(40)]);
      assert.deepEqual([run.startedAt, run.finishedAt, run.queuedAt], [null, null, later(100)]);
      if (cause === 'exit') assert.deepEqual(run.notBefore, later(110));
    }
  });

  test('lie within the assignment and the report, whatever the clock of the worker says', () => {
    const cases: [string, string, number, number][] = [
      [at(-3600), at(-3500), 1, 1],
      [at(5000), at(6000), 100, 100],
      [at(-50), at(60), 1, 60],
      [at(60), at(50), 60, 60],
    ];
    for (const type of ENDS)
      for (const [started_at, finished_at, start, end] of cases) {
        const { run } = decided({ ...RUNNING, maxAttempts: 1 }, type, { started_at, finished_at });
        assert.deepEqual([run.startedAt, run.finishedAt], [later(start), later(end)]);
      }
    const assigned = after(FRESH, ASSIGN);
    for (const [given, start] of [
      [-10, 1],
      [500, 100],
    ] as const) {
      const { run } = decided(assigned, 'STARTED', { worker_id: 'w1', started_at: at(given) });
      assert.deepEqual(run.startedAt, later(start));
    }
  });

  test('count for the timeout of the attempt from the start of the container', () => {
    const { run } = decided({ ...after(FRESH, ASSIGN), attemptTimeoutS: 50 }, 'STARTED', {
      worker_id: 'w1',
      started_at: at(90),
    });
    const elapse = { type: 'elapse' } as const;
    assert.ok('rejection' in decideAt(run, elapse, later(139)));
    assert.ok(!('rejection' in decideAt(run, elapse, later(140))));
  });
});
