import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { HeldRun, SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../pool/worker-pool.js';
import { DirectStrategy } from '../strategies/direct.strategy.js';
import { FitStrategy } from '../strategies/fit.strategy.js';
import { heldBy } from '../strategies/strategy.fixtures.js';
import { Placement } from './placement.js';
import { summariseSupply } from './supply.js';

const NOBODY = new Set<string>();
const SMALL = { cpu: 1, ramMb: 0, vramMb: 0 };
const LARGE = { cpu: 8, ramMb: 0, vramMb: 0 };

function worker(id: string, given: Partial<PooledWorker> = {}): PooledWorker {
  return {
    id,
    cpuCores: 4,
    ramMb: 1000,
    gpus: [
      { id: 0, vramMb: 200, tags: [] },
      { id: 1, vramMb: 300, tags: [] },
    ],
    tags: [],
    runningOps: [],
    createdAt: new Date(0),
    lastHeartbeatAt: new Date(0),
    isActive: true,
    isDraining: false,
    ...given,
  };
}

function heldOn(...held: readonly HeldRun[]): ReadonlyMap<string, readonly HeldRun[]> {
  return new Map(held.map((run) => [run.workerId, [run]]));
}

describe('the supply', () => {
  it('adds up what the workers have that take runs, and what of it is taken', () => {
    const workers = [
      worker('a'),
      worker('b'),
      worker('drains', { isDraining: true }),
      worker('silent', { isActive: false }),
    ];
    const held = heldOn(
      heldBy('b', 'x', { cpu: 3, ramMb: 100, vramMb: 50, gpuId: 1 }),
      heldBy('drains', 'y', { cpu: 1 }),
    );
    const { sizes, ...supply } = summariseSupply(workers, held, new Set(['a', 'silent']));
    assert.deepEqual(supply, {
      active: 2,
      idle: 1,
      reserved: 1,
      draining: 1,
      stale: 1,
      cpu: { total: 8, used: 3 },
      ramMb: { total: 2000, used: 100 },
      vramMb: { total: 1000, used: 50 },
      gpus: { total: 4, used: 1 },
    });
    assert.deepEqual(sizes, [{ cpuCores: 4, ramMb: 1000, gpus: [300, 200], workers: 2, idle: 1 }]);
  });

  it('tells workers of equal size together, the most frequent first', () => {
    const { sizes } = summariseSupply(
      [worker('a', { cpuCores: 9 }), worker('b', { gpus: [] }), worker('c', { gpus: [] })],
      heldOn(heldBy('b', 'x', {})),
      NOBODY,
    );
    assert.deepEqual(
      sizes.map(({ cpuCores, gpus, workers, idle }) => [cpuCores, gpus.length, workers, idle]),
      [
        [4, 0, 2, 1],
        [9, 2, 1, 1],
      ],
    );
  });
});

describe('the places for runs of a shape', () => {
  const fit = new FitStrategy(300);

  it('are as many as fit into what is free, and none where nothing ever fits', () => {
    const held = heldOn(heldBy('b', 'x', { cpu: 3 }));
    const placement = new Placement(fit, [worker('a'), worker('b')], held, NOBODY);
    assert.deepEqual(placement.place(SMALL, 100), { isPlaceable: true, room: 5 });
    assert.deepEqual(placement.place(SMALL, 2), { isPlaceable: true, room: 2 });
    assert.deepEqual(placement.place({ ...SMALL, cpu: 0 }, 7), { isPlaceable: true, room: 7 });
    assert.deepEqual(placement.place(LARGE, 100), { isPlaceable: false, room: 0 });
  });

  it('are not on workers that are kept free for a run, though they could take it one day', () => {
    const placement = new Placement(fit, [worker('a')], new Map(), new Set(['a']));
    assert.deepEqual(placement.place(SMALL, 100), { isPlaceable: true, room: 0 });
  });

  it('are by direct the workers that hold nothing, whatever the run asks for', () => {
    const held = heldOn(heldBy('b', 'x', {}));
    const placement = new Placement(new DirectStrategy(), [worker('a'), worker('b')], held, NOBODY);
    assert.deepEqual(placement.place(LARGE, 100), { isPlaceable: true, room: 1 });
  });

  it('are unknown without workers, and by a strategy that looks at more than the shape', () => {
    const unknown = { isPlaceable: null, room: null };
    assert.deepEqual(new Placement(fit, [], new Map(), NOBODY).place(SMALL, 1), unknown);
    const own: SchedulingStrategy = {
      name: 'own',
      candidatesFor: () => ({ limit: 1 }),
      obstacles: () => [],
      choose: () => ({ assignments: [] }),
    };
    assert.deepEqual(new Placement(own, [worker('a')], new Map(), NOBODY).place(SMALL, 1), unknown);
  });
});
