import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import fc from 'fast-check';
import { GracePeriod } from './grace-period.js';
import { ManualClock } from '../../common/testing/manual-clock.js';

const TIMEOUT = 8_000;

interface Scene {
  readonly clock: ManualClock;
  readonly grace: GracePeriod;
  /** Advances the clock in normal steps with a check after each. */
  readonly pass: (ms: number) => void;
}

function scene(): Scene {
  const clock = new ManualClock();
  const grace = new GracePeriod(TIMEOUT, clock);
  const pass = (ms: number): void => {
    for (let left = ms; left > 0; left -= grace.checkEveryMs) {
      clock.advance(Math.min(left, grace.checkEveryMs));
      grace.check();
    }
  };
  return { clock, grace, pass };
}

/** The period of a server that has listened for long. */
function settled(): Scene {
  const made = scene();
  made.grace.start();
  made.pass(TIMEOUT);
  assert.ok(made.grace.isOver());
  return made;
}

/** Checks that the period ends one whole timeout from now. */
function checkAnew({ grace, clock, pass }: Scene): void {
  assert.equal(grace.isOver(), false);
  pass(TIMEOUT - 1);
  assert.equal(grace.isOver(), false);
  clock.advance(1);
  assert.equal(grace.isOver(), true);
}

describe('the grace period of the reaper', () => {
  test('does not end before the server listens', () => {
    const { grace, pass } = scene();
    pass(10 * TIMEOUT);
    assert.equal(grace.isOver(), false);
    assert.equal(grace.remainingMs(), Infinity);
  });

  test('detects a pause when it is read, before the next check', () => {
    const { clock, grace } = settled();
    clock.advance(3 * TIMEOUT);
    assert.equal(grace.isOver(), false);
  });

  test('restarts after the machine was suspended while the steady clock stood still', () => {
    const made = settled();
    made.clock.jump(TIMEOUT);
    checkAnew(made);
  });

  test('ignores a wall clock that is set back', () => {
    const { clock, grace, pass } = settled();
    clock.jump(-10 * TIMEOUT);
    pass(TIMEOUT / 2);
    assert.ok(grace.isOver());
  });

  test('restarts after a slow answer of the database', () => {
    const made = settled();
    const askedAt = made.clock.now();
    made.pass(TIMEOUT / 2);
    made.grace.databaseAnswered(new Date(0), askedAt);
    checkAnew(made);
  });

  test('restarts when the clock of the database jumps ahead, not when both clocks advance together', () => {
    const made = settled();
    const at = (ms: number): void => made.grace.databaseAnswered(new Date(1_000_000 + ms), made.clock.now());
    at(0);
    made.pass(TIMEOUT);
    at(TIMEOUT);
    assert.ok(made.grace.isOver());
    at(2.5 * TIMEOUT);
    checkAnew(made);
  });

  test('an outage before the server listens does not start it', () => {
    const { clock, grace, pass } = scene();
    grace.restart();
    grace.databaseFailed();
    grace.databaseAnswered(new Date(0), clock.now());
    pass(2 * TIMEOUT);
    assert.equal(grace.isOver(), false);
  });

  type Step = readonly [what: 'go on' | 'pause' | 'suspend' | 'fail' | 'answer' | 'reconnect', ms: number];
  const anyStep: fc.Arbitrary<Step> = fc.oneof(
    { weight: 6, arbitrary: fc.tuple(fc.constant('go on' as const), fc.integer({ min: 1, max: TIMEOUT })) },
    fc.tuple(fc.constantFrom('pause' as const, 'suspend' as const), fc.integer({ min: 2_001, max: 60_000 })),
    fc.tuple(fc.constantFrom('fail' as const, 'answer' as const, 'reconnect' as const), fc.constant(0)),
  );

  test('lasts exactly one timeout after the last of these events', () => {
    let judged = 0;
    const property = fc.property(fc.array(anyStep, { maxLength: 40 }), (steps) => {
      const { clock, grace, pass } = scene();
      grace.start();
      let quietMs = 0;
      let isAway = false;
      for (const [what, ms] of steps) {
        if (what === 'go on') {
          pass(ms);
          quietMs += ms;
        } else {
          if (what === 'pause') clock.advance(ms);
          if (what === 'suspend') clock.jump(ms);
          if (what === 'reconnect') grace.restart();
          if (what === 'fail') grace.databaseFailed();
          if (what === 'answer') grace.databaseAnswered(new Date(clock.now()), clock.now());
          if (what !== 'answer' || isAway) quietMs = 0;
          isAway = what === 'fail' || (isAway && what !== 'answer');
        }
        assert.equal(grace.isOver(), !isAway && quietMs >= TIMEOUT, `after ${what} ${ms}`);
        if (grace.isOver()) judged += 1;
      }
    });
    fc.assert(property, { numRuns: 500, seed: 20_260_101 });
    assert.ok(judged > 500, `the sequences came far enough: ${judged}`);
  });

  test('an undetected pause is shorter than a quarter of the timeout', () => {
    const property = fc.property(
      fc.integer({ min: 1_000, max: 86_400_000 }),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (timeout, part) => {
        const clock = new ManualClock();
        const grace = new GracePeriod(timeout, clock);
        grace.start();
        for (let i = 0; i < 8; i += 1) {
          clock.advance(grace.checkEveryMs);
          grace.check();
        }
        assert.ok(grace.isOver());
        // The pause may begin at any time after a look.
        clock.advance(part * grace.checkEveryMs);
        clock.advance(timeout / 4 + 1);
        assert.equal(grace.isOver(), false);
      },
    );
    fc.assert(property, { seed: 20_260_101 });
  });
});
