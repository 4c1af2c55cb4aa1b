import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import * as fc from 'fast-check';
import { OverLimit } from '../errors/domain-error.js';
import { Quota } from './quota.js';

function quotaOf(total: number, perKey: number): Quota {
  return new Quota({ what: 'things', setting: 'SERVICE_READERS', total, perKey });
}

describe('a quota', () => {
  it('refuses a key over its share, names the limit, and leaves the others theirs', () => {
    const quota = quotaOf(10, 3);
    quota.take('a', 3);
    assert.throws(() => quota.take('a'), {
      constructor: OverLimit,
      kind: 'rate-limited',
      message: 'Too many things of this API key: at most 3 (SERVICE_READERS_PER_KEY)',
      limit: 'SERVICE_READERS_PER_KEY',
      retryAfterSeconds: 5,
    });
    quota.take('b', 3);
    quota.release('a');
    quota.take('a');
  });

  it('refuses everybody when the process has no more', () => {
    const quota = quotaOf(4, 3);
    quota.take('a', 3);
    assert.equal(quota.tryTake('b', 2), false);
    assert.throws(() => quota.take('b', 2), {
      kind: 'unavailable',
      message: 'Too many things: at most 4 (SERVICE_READERS)',
      limit: 'SERVICE_READERS',
    });
    assert.equal(quota.tryTake('b'), true);
    assert.equal(quota.held, 4);
  });

  it('never holds more than its limits, and nothing when all is released', () => {
    const step = fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 1, max: 5 }), fc.boolean());
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const quota = quotaOf(12, 6);
        const held = new Map<string, number[]>();
        for (const [key, amount, isRelease] of steps) {
          const own = held.get(key) ?? [];
          held.set(key, own);
          if (isRelease) {
            const given = own.pop();
            if (given !== undefined) quota.release(key, given);
            continue;
          }
          try {
            quota.take(key, amount);
            own.push(amount);
          } catch (error) {
            assert.ok(error instanceof OverLimit);
          }
          const sums = [...held.values()].map((amounts) => amounts.reduce((sum, next) => sum + next, 0));
          assert.ok(sums.every((sum) => sum <= 6));
          assert.equal(
            quota.held,
            sums.reduce((sum, next) => sum + next, 0),
          );
          assert.ok(quota.held <= 12);
        }
        for (const [key, amounts] of held) for (const amount of amounts) quota.release(key, amount);
        assert.equal(quota.held, 0);
      }),
    );
  });
});
