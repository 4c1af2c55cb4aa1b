import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { ClaimingWorker, HeldRun } from '../runs/scheduling-strategy.js';
import { freeResources, type FreeGpu } from './free-resources.js';

const WORKER: ClaimingWorker = {
  id: 'w',
  cpuCores: 8,
  ramMb: 1000,
  gpus: [
    { id: 1, vramMb: 600, tags: [] },
    { id: 0, vramMb: 400, tags: [] },
  ],
  tags: [],
  capabilities: [],
};

let runs = 0;
function held(takes: Partial<HeldRun>): HeldRun {
  return {
    runId: `run-${(runs += 1)}`,
    workerId: 'w',
    cpuMillis: 0,
    ramMb: 0,
    vramMb: 0,
    gpus: 0,
    gpuIds: [],
    ...takes,
  };
}

/** The GPUs with what is left of their memory; those with all of it are idle. */
function gpus(...vramMb: readonly number[]): FreeGpu[] {
  return vramMb.map((left, i) => ({ id: 1 - i, vramMb: left, tags: [], isIdle: left === [600, 400][i] }));
}

describe('free resources', () => {
  it('are all resources of a worker without runs, its GPUs in order', () => {
    assert.deepEqual(freeResources(WORKER, []), { cpuMillis: 8000, ramMb: 1000, gpus: gpus(600, 400) });
  });

  it('exclude those of its runs, GPU memory on the assigned GPU', () => {
    const runsHeld = [
      held({ cpuMillis: 2000, ramMb: 300, vramMb: 100, gpuIds: [0] }),
      held({ cpuMillis: 1000, ramMb: 50, vramMb: 200, gpuIds: [0] }),
      held({ vramMb: 10, gpuIds: [1] }),
    ];
    assert.deepEqual(freeResources(WORKER, runsHeld), { cpuMillis: 5000, ramMb: 650, gpus: gpus(590, 100) });
  });

  it('exclude the GPU memory of a run without an assigned GPU on every GPU', () => {
    assert.deepEqual(freeResources(WORKER, [held({ vramMb: 100 }), held({ vramMb: 50, gpuIds: [0] })]), {
      cpuMillis: 8000,
      ramMb: 1000,
      gpus: gpus(500, 250),
    });
  });

  it('have nothing of a GPU that a run has for itself, nor of any GPU before it is known which ones it has', () => {
    const whole = { gpus: 1, vramMb: 10 };
    assert.deepEqual(freeResources(WORKER, [held({ ...whole, gpuIds: [0] })]).gpus, gpus(600, 0));
    assert.deepEqual(freeResources(WORKER, [held(whole)]).gpus, gpus(0, 0));
    assert.deepEqual(freeResources(WORKER, [held({ gpus: 2, gpuIds: [0] })]).gpus, gpus(0, 0));
  });

  it('have a GPU that is not idle when a run uses it without asking for memory', () => {
    const [first, second] = freeResources(WORKER, [held({ gpuIds: [1] })]).gpus;
    assert.deepEqual([first?.vramMb, first?.isIdle, second?.isIdle], [600, false, true]);
  });

  it('are never negative', () => {
    assert.deepEqual(freeResources(WORKER, [held({ cpuMillis: 9000, ramMb: 2000, vramMb: 500 })]), {
      cpuMillis: 0,
      ramMb: 0,
      gpus: gpus(100, 0),
    });
  });

  it('ignore runs of other workers, and GPUs that the worker no longer has', () => {
    assert.deepEqual(
      freeResources(WORKER, [
        held({ workerId: 'other', cpuMillis: 4000 }),
        held({ vramMb: 100, gpuIds: [7] }),
      ]),
      { cpuMillis: 8000, ramMb: 1000, gpus: gpus(600, 400) },
    );
  });
});
