import assert from 'node:assert/strict';
import { test } from 'vitest';
import fc from 'fast-check';
import { Backoff, MAX_RETRY_AFTER_MS } from './backoff.js';

test('doubles from the first pause to the longest, and restarts after a success', () => {
  const backoff = new Backoff({ firstMs: 100, maxMs: 1000 }, () => 1);
  const pauses = () => Array.from({ length: 6 }, () => backoff.nextMs());
  assert.deepEqual(pauses(), [100, 200, 400, 800, 1000, 1000]);
  backoff.reset();
  assert.equal(backoff.nextMs(), 100);
});

test('draws pauses from the upper half', () => {
  assert.equal(new Backoff({ firstMs: 100, maxMs: 1000 }, () => 0).nextMs(), 50);
});

test('honours Retry-After up to a minute', () => {
  const backoff = new Backoff({ firstMs: 100, maxMs: 1000 }, () => 0.5);
  assert.equal(backoff.nextMs(7), 7000);
  assert.equal(backoff.nextMs(1e9), MAX_RETRY_AFTER_MS);
});

test('always pauses, after any number of failures', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 5000 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      (tries, random) => {
        const backoff = new Backoff({ firstMs: 100, maxMs: 15_000 }, () => random);
        for (let n = 0; n < tries; n++) {
          const pause = backoff.nextMs();
          assert.ok(pause >= 50 && pause <= 15_000);
        }
      },
    ),
    { numRuns: 50 },
  );
});
