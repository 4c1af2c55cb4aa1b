import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PooledWorker } from '../pool/worker-pool.js';
import type { WorkerStanding } from '../workers.service.js';
import { summariseWorkers } from './workers-summary.js';

function standing(isActive: boolean, isDraining: boolean): WorkerStanding {
  const worker: PooledWorker = {
    id: 'w',
    cpuCores: 4,
    ramMb: 1000,
    gpus: [
      { id: 0, vramMb: 300, tags: [] },
      { id: 1, vramMb: 200, tags: [] },
    ],
    tags: [],
    runningOps: [],
    createdAt: new Date(0),
    lastHeartbeatAt: new Date(0),
    isActive,
    isDraining,
  };
  const gpus = [
    { id: 0, vramMb: 100 },
    { id: 1, vramMb: 200 },
  ];
  return { worker, free: { cpu: 1, ramMb: 900, gpus } };
}

describe('the workers taken together', () => {
  it('are each in one group, and those that take runs are the capacity', () => {
    const summary = summariseWorkers([
      standing(true, false),
      standing(true, false),
      standing(true, true),
      standing(false, false),
      standing(false, true),
    ]);
    assert.deepEqual(summary, {
      active: 2,
      draining: 1,
      stale: 2,
      cpu: { total: 8, used: 6 },
      ramMb: { total: 2000, used: 200 },
      vramMb: { total: 1000, used: 400 },
    });
  });
});
