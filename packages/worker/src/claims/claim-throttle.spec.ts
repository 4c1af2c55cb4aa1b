import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { ClaimThrottle } from './claim-throttle.js';
import { FakeClock } from '../testing/fake-clock.js';

describe('ClaimThrottle', () => {
  it('pauses claims after three consecutive failures of the machine', () => {
    const throttle = new ClaimThrottle(new FakeClock(), () => 1);
    const pauses = [1, 2, 3, 4].map(() => {
      throttle.recordClaim();
      throttle.recordEnd('machine-failed');
      return throttle.remainingMs();
    });
    assert.deepEqual(pauses, [0, 0, 1000, 2000]);
  });

  it('allows one claim at a time while the machine fails, with pauses that grow to 10 s', async () => {
    const clock = new FakeClock();
    const throttle = new ClaimThrottle(clock, () => 1);
    for (let n = 0; n < 3; n++) throttle.recordEnd('machine-failed');
    const pauses = [1, 2, 3, 4, 5, 6].map(() => {
      throttle.recordClaim();
      return throttle.remainingMs();
    });
    assert.deepEqual(pauses, [2000, 4000, 8000, 10_000, 10_000, 10_000]);
    await clock.pass(9999);
    assert.equal(throttle.remainingMs(), 1);
    await clock.pass(1);
    assert.equal(throttle.remainingMs(), 0);
  });

  for (const end of ['completed', 'failed'] as const) {
    it(`ends the pause when a container ran: ${end}`, () => {
      const throttle = new ClaimThrottle(new FakeClock(), () => 1);
      for (let n = 0; n < 5; n++) throttle.recordEnd('machine-failed');
      throttle.recordEnd(end);
      assert.equal(throttle.remainingMs(), 0);
      throttle.recordEnd('machine-failed');
      assert.equal(throttle.remainingMs(), 0);
    });
  }

  for (const end of ['faulty', 'lost', 'unreported'] as const) {
    it(`ignores a run that ends ${end}`, () => {
      const throttle = new ClaimThrottle(new FakeClock(), () => 1);
      for (let n = 0; n < 10; n++) throttle.recordEnd(end);
      assert.equal(throttle.remainingMs(), 0);
      for (let n = 0; n < 3; n++) throttle.recordEnd('machine-failed');
      throttle.recordEnd(end);
      assert.equal(throttle.remainingMs(), 1000);
    });
  }
});
