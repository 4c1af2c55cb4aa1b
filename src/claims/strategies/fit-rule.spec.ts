import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import fc from 'fast-check';
import type { Needs } from '../../runs/scheduling-strategy.js';
import { freeResources, type FreeResources } from '../../workers/free-resources.js';
import { chooseGpus, fitsInto, largestShapes, shortages } from './fit-rule.js';
import { claimant, heldBy, shape } from './strategy.fixtures.js';

/** What is free of a worker with four GPUs, of which a run has a part of the first. */
const WORKER = claimant('w', { cpu: 1, gpus: [80, 40, 24, 80], tags: [['a'], ['b', 'a'], ['b'], ['a']] });
const FREE = freeResources(WORKER, [heldBy('w', 'x', { vramMb: 10, gpuId: 0 })]);

describe('whole GPUs for a run', () => {
  for (const [title, needs, ids] of [
    ['are the smallest that are idle', { gpus: 2 }, [1, 2]],
    ['have the memory that it needs on each', { gpus: 2, vramMb: 30 }, [1, 3]],
    ['are none while one of them is in use', { gpus: 2, vramMb: 50 }, undefined],
    ['have all of its tags', { gpus: 1, gpuTags: ['b', 'a'] }, [1]],
    ['are none without enough that have its tags', { gpus: 2, gpuTags: ['b', 'a'] }, undefined],
    ['are all that are idle', { gpus: 3 }, [1, 2, 3]],
  ] as const) {
    it(title, () => {
      const { gpuTags, ...amounts }: { gpus: number; vramMb?: number; gpuTags?: readonly string[] } = needs;
      assert.deepEqual(chooseGpus(FREE, { ...shape(amounts), gpuTags: gpuTags ?? [] }), ids);
    });
  }

  it('that it does not get are an obstacle, which counts those with its memory and tags', () => {
    assert.deepEqual(shortages(WORKER, FREE, { ...shape({ gpus: 3, vramMb: 30 }), gpuTags: ['a'] }), [
      { resource: 'gpus', needed: 3, free: 2, total: 3 },
    ]);
  });
});

describe('a share of a GPU', () => {
  it('is of a GPU with the tags of the run', () => {
    assert.deepEqual(chooseGpus(FREE, { ...shape({ vramMb: 5 }), gpuTags: ['a'] }), [1]);
    assert.deepEqual(chooseGpus(FREE, shape({ vramMb: 5 })), [2]);
    const needs: Needs = { ...shape({ vramMb: 41 }), gpuTags: ['b'] };
    assert.deepEqual(shortages(WORKER, FREE, needs), [
      { resource: 'vram_mb', needed: 41, free: 40, total: 40 },
    ]);
  });
});

describe('the largest shapes of free resources', () => {
  const gpu = fc.record({ vramMb: fc.nat({ max: 6 }), isIdle: fc.boolean() });
  const resources: fc.Arbitrary<FreeResources> = fc.record({
    cpuMillis: fc.nat({ max: 3 }),
    ramMb: fc.nat({ max: 3 }),
    gpus: fc.array(gpu, { maxLength: 5 }).map((all) => all.map((one, id) => ({ ...one, id, tags: [] }))),
  });
  const amounts = fc.record({
    cpuMillis: fc.nat({ max: 3 }),
    ramMb: fc.nat({ max: 3 }),
    vramMb: fc.nat({ max: 6 }),
    gpus: fc.nat({ max: 4 }),
  });

  it('include a run without tags exactly when it fits the resources', () => {
    fc.assert(
      fc.property(resources, amounts, (free, needs) => {
        const isIncluded = largestShapes(free, true).some(
          (most) =>
            needs.cpuMillis <= most.cpuMillis &&
            needs.ramMb <= most.ramMb &&
            needs.vramMb <= most.vramMb &&
            needs.gpus <= most.gpus,
        );
        assert.equal(isIncluded, fitsInto(free, needs));
      }),
      { numRuns: 2000 },
    );
  });

  it('are one for a worker that cannot give whole GPUs', () => {
    fc.assert(
      fc.property(resources, (free) => {
        assert.deepEqual(
          largestShapes(free, false).map(({ gpus }) => gpus),
          [0],
        );
      }),
    );
  });
});
