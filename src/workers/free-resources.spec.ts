import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { ClaimingWorker, HeldRun } from '../runs/scheduling-strategy.js';
import { freeResources } from './free-resources.js';

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
    gpuId: null,
    ...takes,
  };
}

function gpus(...vramMb: readonly number[]): { id: number; vramMb: number }[] {
  return vramMb.map((left, i) => ({ id: 1 - i, vramMb: left }));
}

describe('free resources', () => {
  it('are all resources of a worker without runs, its GPUs in order', () => {
    assert.deepEqual(freeResources(WORKER, []), { cpuMillis: 8000, ramMb: 1000, gpus: gpus(600, 400) });
  });

  it('exclude those of its runs, GPU memory on the assigned GPU', () => {
    const runsHeld = [
      held({ cpuMillis: 2000, ramMb: 300, vramMb: 100, gpuId: 0 }),
      held({ cpuMillis: 1000, ramMb: 50, vramMb: 200, gpuId: 0 }),
      held({ vramMb: 10, gpuId: 1 }),
    ];
    assert.deepEqual(freeResources(WORKER, runsHeld), { cpuMillis: 5000, ramMb: 650, gpus: gpus(590, 100) });
  });

  it('exclude the GPU memory of a run without an assigned GPU on every GPU', () => {
    assert.deepEqual(freeResources(WORKER, [held({ vramMb: 100 }), held({ vramMb: 50, gpuId: 0 })]), {
      cpuMillis: 8000,
      ramMb: 1000,
      gpus: gpus(500, 250),
    });
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
      freeResources(WORKER, [held({ workerId: 'other', cpuMillis: 4000 }), held({ vramMb: 100, gpuId: 7 })]),
      { cpuMillis: 8000, ramMb: 1000, gpus: gpus(600, 400) },
    );
  });
});
