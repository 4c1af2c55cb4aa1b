import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import type { Claimant } from '../../runs/scheduling-strategy.js';
import { DirectStrategy } from './direct.strategy.js';
import { FitStrategy } from './fit.strategy.js';
import { claimant, heldBy, NOTHING, NOW, queued, shape } from './strategy.fixtures.js';

const fit = new FitStrategy(300);

const amount = (max: number): fc.Arbitrary<number> => fc.oneof(fc.constant(0), fc.integer({ min: 0, max }));
const needs = fc.record({
  cpu: amount(4),
  ramMb: amount(6),
  vramMb: amount(6),
  gpus: fc.oneof(fc.constant(0), fc.constant(0), fc.nat({ max: 2 })),
});

const workers: fc.Arbitrary<Claimant> = fc
  .tuple(
    fc.record({
      cpu: fc.nat({ max: 8 }),
      ramMb: fc.nat({ max: 12 }),
      gpus: fc.array(fc.nat({ max: 12 }), { maxLength: 3 }),
    }),
    fc.array(fc.tuple(needs, fc.option(fc.nat({ max: 2 }))), { maxLength: 3 }),
  )
  .map(([has, takes]) =>
    claimant(
      'w',
      has,
      takes.map(([take, gpuId], i) => heldBy('w', `held-${i}`, { ...take, gpuId })),
    ),
  );

describe('the free places of a worker for runs of one shape', () => {
  it('is by fit as many as a choice gives it when nothing else is in the queue', () => {
    const seen = new Set<number>();
    fc.assert(
      fc.property(workers, needs, fc.integer({ min: 1, max: 9 }), (worker, asks, count) => {
        const runs = Array.from({ length: count }, (_, i) => queued(`run-${i}`, asks));
        const { assignments } = fit.choose([worker], runs, { now: NOW, reachable: new Set() });
        assert.equal(assignments.length, Math.min(count, fit.roomOf(worker)(shape(asks))));
        seen.add(assignments.length);
      }),
      { numRuns: 500 },
    );
    assert.ok(seen.size > 4, [...seen].join());
  });

  for (const strategy of [fit, new DirectStrategy()]) {
    it(`is by ${strategy.name} more than none, for a worker that holds nothing, exactly when nothing is in the way`, () => {
      fc.assert(
        fc.property(workers, needs, (worker, asks) => {
          const idle = { ...worker, held: [] };
          const isFree = strategy.obstacles(idle, queued('run', asks)).length === 0;
          assert.equal(strategy.roomOf(idle)(shape(asks)) > 0, isFree);
        }),
        { numRuns: 300 },
      );
    });
  }

  it('is by direct one run while the worker holds nothing', () => {
    const direct = new DirectStrategy();
    assert.equal(direct.roomOf(claimant('w'))(NOTHING), 1);
    assert.equal(direct.roomOf(claimant('w'))(shape({ cpu: 1 })), 0);
    assert.equal(direct.roomOf(claimant('w', {}, [heldBy('w', 'x', {})]))(NOTHING), 0);
  });
});
