import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { HeldRun, SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import type { PooledWorker } from '../../workers/pool/worker-pool.js';
import { FitStrategy } from '../strategies/fit.strategy.js';
import { heldBy, shape } from '../strategies/strategy.fixtures.js';
import { placementOf, summariseSupply } from './capacity.service.js';

const NONE = new Set<string>();
const SMALL = shape({ cpu: 1 });

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
    capabilities: [],
    engine: null,
    containerEngine: null,
    notClaiming: [],
    unable: [],
    runningOps: [],
    createdAt: new Date(0),
    lastHeartbeatAt: new Date(0),
    isActive: true,
    isDraining: false,
    awayUntil: null,
    ...given,
  };
}

function heldOn(...held: readonly HeldRun[]): ReadonlyMap<string, readonly HeldRun[]> {
  return new Map(held.map((run) => [run.workerId, [run]]));
}

describe('the supply', () => {
  it('adds up the total and free resources of the workers that accept runs', () => {
    const workers = [
      worker('a'),
      worker('b'),
      worker('drains', { isDraining: true }),
      worker('silent', { isActive: false }),
      worker('away', { isActive: false, awayUntil: new Date(1) }),
      worker('paused', { notClaiming: [{ reason: 'disk_full', message: '' }] }),
    ];
    const held = heldOn(
      heldBy('b', 'x', { cpu: 3, ramMb: 100, vramMb: 50, gpuId: 1 }),
      heldBy('drains', 'y', { cpu: 1 }),
    );
    const { sizes, ...supply } = summariseSupply(workers, held, new Set(['a', 'silent']), 100);
    assert.deepEqual(supply, {
      workers: { active: 2, idle: 1, reserved: 1, draining: 1, not_claiming: 1, away: 1, stale: 1 },
      cpu: { total: 8, free: 5 },
      cpu_millis: { total: 8000, free: 5000 },
      ram_mb: { total: 2000, free: 1900 },
      vram_mb: { total: 1000, free: 950 },
      gpus: { total: 4, free: 3 },
      other: null,
      engines: [],
    });
    assert.deepEqual(sizes, [{ cpu_cores: 4, ram_mb: 1000, gpus: [300, 200], workers: 2, idle: 1 }]);
  });

  it('groups workers of equal size, the most frequent first', () => {
    const { sizes } = summariseSupply(
      [worker('a', { cpuCores: 9 }), worker('b', { gpus: [] }), worker('c', { gpus: [] }), worker('d')],
      heldOn(heldBy('b', 'x', {})),
      NONE,
      100,
    );
    assert.deepEqual(
      sizes.map(({ cpu_cores: cpuCores, gpus, workers, idle }) => [cpuCores, gpus.length, workers, idle]),
      [
        [4, 0, 2, 1],
        [9, 2, 1, 1],
        [4, 2, 1, 1],
      ],
    );
  });
});

describe('the placement of runs of a shape', () => {
  const fit = new FitStrategy(300);

  it('counts the runs that fit the free resources, and finds shapes that never fit', () => {
    const held = heldOn(heldBy('b', 'x', { cpu: 3 }));
    const placement = placementOf(fit, [worker('a'), worker('b')], held, NONE);
    assert.deepEqual(placement(SMALL, 100), { isPlaceable: true, free: 5 });
    assert.deepEqual(placement(SMALL, 2), { isPlaceable: true, free: 2 });
    assert.deepEqual(placement(shape({ cpu: 8 }), 100), { isPlaceable: false, free: 0 });
    const busy = placementOf(fit, [worker('b')], held, NONE);
    assert.deepEqual(busy(shape({ cpu: 4 }), 100), { isPlaceable: true, free: 0 });
  });

  it('counts no free place on a reserved worker', () => {
    const placement = placementOf(fit, [worker('a')], new Map(), new Set(['a']));
    assert.deepEqual(placement(SMALL, 100), { isPlaceable: true, free: 0 });
  });

  it('is unknown without workers, and for a strategy without roomOf', () => {
    const unknown = { isPlaceable: null, free: null };
    assert.deepEqual(placementOf(fit, [], new Map(), NONE)(SMALL, 1), unknown);
    const own: SchedulingStrategy = {
      name: 'own',
      candidatesFor: () => ({ limit: 1 }),
      obstacles: () => [],
      choose: () => ({ assignments: [] }),
    };
    assert.deepEqual(placementOf(own, [worker('a')], new Map(), NONE)(SMALL, 1), unknown);
  });
});
