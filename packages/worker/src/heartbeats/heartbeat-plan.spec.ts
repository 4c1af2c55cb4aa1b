import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { planHeartbeats } from './heartbeat-plan.js';

test('keeps pause and time limit together within a third of the worker timeout', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.05, max: 3600, noNaN: true }),
      fc.double({ min: 0.1, max: 86_400, noNaN: true }),
      (tick, timeout) => {
        const { intervalMs, timeLimitMs, maxPauseMs } = planHeartbeats(tick, timeout);
        const thirdMs = (timeout * 1000) / 3 + 1e-6;
        assert.ok(intervalMs + timeLimitMs <= thirdMs && maxPauseMs + timeLimitMs <= thirdMs);
        assert.ok(intervalMs >= 10 && timeLimitMs >= 10 && maxPauseMs >= intervalMs);
      },
    ),
  );
});

test('follows the tick where that is short enough', () => {
  assert.deepEqual(planHeartbeats(2, 60), { intervalMs: 2000, timeLimitMs: 10_000, maxPauseMs: 10_000 });
});

test('gives whole milliseconds, also where the worker timeout is no multiple of three', () => {
  fc.assert(
    fc.property(
      fc.double({ min: 0.05, max: 10, noNaN: true }),
      fc.double({ min: 0.1, max: 100, noNaN: true }),
      (tick, timeout) => {
        assert.ok(Object.values(planHeartbeats(tick, timeout)).every(Number.isInteger));
      },
    ),
  );
});
