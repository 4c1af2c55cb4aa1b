import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { PooledWorker } from '../pool/worker-pool.js';
import type { WorkerStatus } from '../workers.service.js';
import { summariseWorkers } from './overview.service.js';

function workerStatus(
  isActive: boolean,
  isDraining: boolean,
  isPaused = false,
): Omit<WorkerStatus, 'assigned'> {
  const worker: PooledWorker = {
    id: 'w',
    cpuCores: 4,
    ramMb: 1000,
    gpus: [
      { id: 0, vramMb: 300, tags: [] },
      { id: 1, vramMb: 200, tags: [] },
    ],
    tags: [],
    capabilities: [],
    engine: null,
    notClaiming: isPaused ? [{ reason: 'engine_paused', message: 'no answer' }] : [],
    runningOps: [],
    createdAt: new Date(0),
    lastHeartbeatAt: new Date(0),
    isActive,
    isDraining,
  };
  const gpus = [
    { id: 0, vramMb: 100, tags: [], isIdle: false },
    { id: 1, vramMb: 200, tags: [], isIdle: true },
  ];
  return { worker, free: { cpuMillis: 1000, ramMb: 900, gpus } };
}

describe('the summary of workers', () => {
  it('counts each worker in one group, and the resources of those that accept runs', () => {
    const summary = summariseWorkers([
      workerStatus(true, false),
      workerStatus(true, false),
      workerStatus(true, true),
      workerStatus(false, false),
      workerStatus(false, true),
      workerStatus(true, false, true),
      workerStatus(true, true, true),
      workerStatus(false, false, true),
    ]);
    assert.deepEqual(summary, {
      active: 2,
      draining: 2,
      not_claiming: 1,
      stale: 3,
      cpuMillis: { total: 8000, used: 6000 },
      ramMb: { total: 2000, used: 200 },
      vramMb: { total: 1000, used: 400 },
    });
  });
});
