import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { NO_CONSTRAINTS } from '../service-api/constraints.js';
import { listHeldRuns, planHeartbeats } from './heartbeat-loop.js';

const run = (id: string, text: string) => ({
  id,
  image: 'i',
  inputs: { text },
  constraints: NO_CONSTRAINTS,
  attempt: 1,
});

test('lists every run once, and inputs up to a total length', () => {
  const runs = [run('a', 'x'.repeat(50)), run('b', 'x'.repeat(500)), run('c', 'x'), run('a', '')];
  const listed = listHeldRuns(runs, 100);
  assert.deepEqual(
    listed.map(({ id, inputs }) => [id, Object.keys(inputs).length]),
    [
      ['a', 1],
      ['b', 0],
      ['c', 1],
    ],
  );
  assert.ok(listed.every(({ attempt }) => attempt === 1));
});

test('keeps pause plus timeout, in whole milliseconds, within a third of the worker timeout', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.05, max: 3600, noNaN: true }),
      fc.double({ min: 0.1, max: 86_400, noNaN: true }),
      (tick, timeout) => {
        const plan = planHeartbeats(tick, timeout);
        assert.ok(Object.values(plan).every(Number.isInteger));
        const { waitSeconds, intervalMs, timeoutMs, maxPauseMs } = plan;
        const thirdMs = (timeout * 1000) / 3 + 1e-6;
        assert.ok(waitSeconds === 0 || waitSeconds * 1000 + timeoutMs <= thirdMs);
        assert.ok(waitSeconds >= 0 && waitSeconds <= 20);
        assert.ok(intervalMs + timeoutMs <= thirdMs && maxPauseMs + timeoutMs <= thirdMs);
        assert.ok(intervalMs >= 10 && timeoutMs >= 10 && maxPauseMs >= intervalMs);
      },
    ),
  );
});

test('uses the tick as interval when it is short enough', () => {
  assert.deepEqual(planHeartbeats(2, 60), {
    waitSeconds: 10,
    intervalMs: 2000,
    timeoutMs: 10_000,
    maxPauseMs: 10_000,
  });
});
