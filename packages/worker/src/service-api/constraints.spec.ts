import assert from 'node:assert/strict';
import { test } from 'vitest';
import { NO_CONSTRAINTS, readConstraints, toWireConstraints } from './constraints.js';

const SHOWN = {
  ram_mb: 512,
  vram_mb: 16_000,
  cpu: 2,
  gpu_id: 0,
  cpu_millis: 1500,
  cpu_limit_millis: 0,
  gpus: 2,
  gpu_selector: ['a100'],
  shm_mb: 64,
  gpu_ids: [0, 3],
};
const READ = {
  ramMb: 512,
  vramMb: 16_000,
  cpuMillis: 1500,
  cpuLimitMillis: 0,
  gpus: 2,
  gpuSelector: ['a100'],
  shmMb: 64,
  gpuIds: [0, 3],
};

test('constraints are read as they are given, and reported as the service shows them', () => {
  assert.deepEqual(readConstraints(SHOWN), READ);
  assert.deepEqual(toWireConstraints(READ), SHOWN);
});

test('constraints that are not given are no requirement, and the limit of CPU is the request', () => {
  for (const nothing of [undefined, null, {}]) assert.deepEqual(readConstraints(nothing), NO_CONSTRAINTS);
  const plain = { ram_mb: 0, vram_mb: 0, cpu: 2, gpu_id: null };
  const read = { ...NO_CONSTRAINTS, cpuMillis: 2000, cpuLimitMillis: 2000 };
  assert.deepEqual(readConstraints({ ...plain, gpus: null, shm_mb: null, gpu_ids: null }), read);
  assert.deepEqual(toWireConstraints(read), plain);
});

test('constraints of another shape are not read', () => {
  for (const wrong of [
    [],
    { ram_mb: '1' },
    { cpu: 0.5 },
    { cpu_millis: -1 },
    { cpu_limit_millis: '500' },
    { gpus: [1] },
    { gpu_selector: 'a100' },
    { shm_mb: true },
    { gpu_id: 'GPU-1' },
    { gpu_ids: ['0'] },
    { gpu_ids: 0 },
  ]) {
    assert.equal(readConstraints(wrong), null, JSON.stringify(wrong));
  }
});
