import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import * as fc from 'fast-check';
import { KeyOverQuota, ProcessOverQuota, Quota } from './quota.js';

function quotaOf(total: number, perKey: number): { quota: Quota; counted: string[] } {
  const counted: string[] = [];
  const refusals = { declare: () => undefined, count: (limit: string) => void counted.push(limit) };
  const limits = {
    what: 'things',
    total: { max: total, setting: 'ALL' },
    perKey: { max: perKey, setting: 'EACH' },
  };
  return { quota: new Quota(limits, refusals), counted };
}

describe('a quota', () => {
  it('refuses a key over its share, names and counts the limit, and leaves the others theirs', () => {
    const { quota, counted } = quotaOf(10, 3);
    quota.take('a', 3);
    assert.throws(() => quota.take('a'), {
      constructor: KeyOverQuota,
      kind: 'rate-limited',
      message: 'Too many things of this API key: at most 3 (EACH)',
      retryAfterSeconds: 5,
    });
    quota.take('b', 3);
    quota.release('a');
    quota.take('a');
    assert.deepEqual(counted, ['EACH']);
  });

  it('refuses everybody when the process has no more', () => {
    const { quota, counted } = quotaOf(4, 3);
    quota.take('a', 3);
    assert.throws(() => quota.take('b', 2), {
      constructor: ProcessOverQuota,
      kind: 'unavailable',
      message: 'Too many things: at most 4 (ALL)',
    });
    quota.take('b');
    assert.deepEqual(counted, ['ALL']);
  });

  it('is tried without a refusal that counts', () => {
    const { quota, counted } = quotaOf(4, 3);
    const tried = [quota.tryTake('a', 3), quota.tryTake('a'), quota.tryTake('b', 2), quota.tryTake('b')];
    assert.deepEqual(tried, [true, false, false, true]);
    assert.equal(quota.held, 4);
    assert.deepEqual(counted, []);
  });

  it('never holds more than its limits, and nothing when all is released', () => {
    const step = fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.integer({ min: 1, max: 5 }), fc.boolean());
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const { quota } = quotaOf(12, 6);
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
            assert.ok(error instanceof KeyOverQuota || error instanceof ProcessOverQuota);
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
