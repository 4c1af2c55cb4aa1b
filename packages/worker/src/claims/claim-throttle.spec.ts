import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ClaimThrottle } from './claim-throttle.js';
import { FakeClock } from '../testing/fake-clock.js';

describe('holding claims back', () => {
  it('begins at the third trouble of the machine in a row', () => {
    const holdBack = new ClaimThrottle(new FakeClock(), () => 1);
    const lefts = [1, 2, 3, 4].map(() => {
      holdBack.noteClaim();
      holdBack.noteEnd('machine-failed');
      return holdBack.leftMs();
    });
    assert.deepEqual(lefts, [0, 0, 1000, 2000]);
  });

  it('lets one run pass at a time while the trouble lasts, ever more rarely up to 10 s', async () => {
    const clock = new FakeClock();
    const holdBack = new ClaimThrottle(clock, () => 1);
    for (let n = 0; n < 3; n++) holdBack.noteEnd('machine-failed');
    const lefts = [1, 2, 3, 4, 5, 6].map(() => {
      holdBack.noteClaim();
      return holdBack.leftMs();
    });
    assert.deepEqual(lefts, [2000, 4000, 8000, 10_000, 10_000, 10_000]);
    await clock.pass(9999);
    assert.equal(holdBack.leftMs(), 1);
    await clock.pass(1);
    assert.equal(holdBack.leftMs(), 0);
  });

  for (const end of ['completed', 'failed'] as const) {
    it(`ends at once when a container ran: ${end}`, () => {
      const holdBack = new ClaimThrottle(new FakeClock(), () => 1);
      for (let n = 0; n < 5; n++) holdBack.noteEnd('machine-failed');
      holdBack.noteEnd(end);
      assert.equal(holdBack.leftMs(), 0);
      holdBack.noteEnd('machine-failed');
      assert.equal(holdBack.leftMs(), 0);
    });
  }

  for (const end of ['faulty', 'gone', 'unreported'] as const) {
    it(`neither begins nor ends for a run that is ${end}`, () => {
      const holdBack = new ClaimThrottle(new FakeClock(), () => 1);
      for (let n = 0; n < 10; n++) holdBack.noteEnd(end);
      assert.equal(holdBack.leftMs(), 0);
      for (let n = 0; n < 3; n++) holdBack.noteEnd('machine-failed');
      holdBack.noteEnd(end);
      assert.equal(holdBack.leftMs(), 1000);
    });
  }
});
