import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { planClaim } from './claim-loop.js';

describe('a waiting claim', () => {
  it('waits whole seconds from 1 to 20', () => {
    const waits = [0.1, 1, 3, 5, 10, 60, 3600].map((timeout) => planClaim(timeout).waitSeconds);
    assert.deepEqual(waits, [1, 1, 1, 1, 3, 20, 20]);
  });

  it('times out at least 2 s after the end of the wait', () => {
    for (const timeout of [0.1, 1, 5, 7.3, 60, 86_400]) {
      const { waitSeconds, timeoutMs } = planClaim(timeout);
      assert.ok(timeoutMs >= waitSeconds * 1000 + 2000, `timeout ${timeout}`);
      assert.ok(Number.isInteger(timeoutMs));
    }
  });

  it('times out before the worker timeout', () => {
    for (const timeout of [5, 6, 10, 30, 60, 600]) {
      assert.ok(planClaim(timeout).timeoutMs < timeout * 1000, `timeout ${timeout}`);
    }
  });
});
