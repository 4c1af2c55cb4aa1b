import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { planClaim } from './claim-plan.js';

describe('the plan of a waiting claim', () => {
  it('waits 20 s at most, and asks for whole seconds from 1 up', () => {
    const waits = [0.1, 1, 3, 5, 10, 60, 3600].map((timeout) => planClaim(timeout).waitSeconds);
    assert.deepEqual(waits, [1, 1, 1, 1, 3, 20, 20]);
  });

  it('gives the answer at least 2 s beyond the wait', () => {
    for (const timeout of [0.1, 1, 5, 7.3, 60, 86_400]) {
      const { waitSeconds, timeLimitMs } = planClaim(timeout);
      assert.ok(timeLimitMs >= waitSeconds * 1000 + 2000, `timeout ${timeout}`);
      assert.ok(Number.isInteger(timeLimitMs));
    }
  });

  it('is over before the service takes a run back whose claim was never answered', () => {
    for (const timeout of [5, 6, 10, 30, 60, 600]) {
      assert.ok(planClaim(timeout).timeLimitMs < timeout * 1000, `timeout ${timeout}`);
    }
  });
});
