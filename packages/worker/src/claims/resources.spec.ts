import assert from 'node:assert/strict';
import { test } from 'vitest';
import { limitResources, detectResources, parseCpuMax, parseGpus, usableRamMb } from './resources.js';
import { SettingsError } from '@longshore/common/settings/setting';

test('reads the GPUs that nvidia-smi lists', () => {
  const csv =
    '0, 81920, NVIDIA A100-SXM4-80GB\n1, 24564, NVIDIA GeForce RTX 4090\r\n2, 15360, Tesla T4\n3, [N/A], Odd\n';
  assert.deepEqual(parseGpus(csv), [
    { id: 0, vramMb: 81_920, tags: ['a100', 'nvidia-a100-sxm4-80gb'] },
    { id: 1, vramMb: 24_564, tags: ['rtx', 'nvidia-geforce-rtx-4090'] },
    { id: 2, vramMb: 15_360, tags: ['t4', 'tesla-t4'] },
  ]);
});

test('ignores other lines and duplicates', () => {
  for (const text of [
    '',
    'No devices were found\n',
    'NVIDIA-SMI has failed, because, of this',
    '-1, 5, x',
    '1.5, 5, x',
  ]) {
    assert.deepEqual(parseGpus(text), []);
  }
  assert.deepEqual(parseGpus('0, 10, \n0, 20, \n'), [{ id: 0, vramMb: 20, tags: [] }]);
});

test('reads a CPU quota as whole cores', () => {
  assert.equal(parseCpuMax('max 100000\n'), Infinity);
  assert.equal(parseCpuMax('250000 100000\n'), 2);
  assert.equal(parseCpuMax('50000 100000'), 0);
  assert.equal(parseCpuMax(''), Infinity);
  assert.equal(parseCpuMax('1 0'), Infinity);
});

test('applies the memory limit of the control group', () => {
  assert.equal(usableRamMb(8 * 2 ** 30, 0), 8192);
  assert.equal(usableRamMb(8 * 2 ** 30, 2 ** 64), 8192);
  assert.equal(usableRamMb(8 * 2 ** 30, 2 ** 30 + 5), 1024);
});

test('detects at least one core and some memory', async () => {
  const { cpuCores, ramMb } = await detectResources({ isInstalled: false, gpus: [], problem: null });
  assert.ok(Number.isInteger(cpuCores) && cpuCores >= 1);
  assert.ok(Number.isInteger(ramMb) && ramMb > 100);
});

test('offers what the settings say, else what the machine has', () => {
  const gpus = [0, 1].map((id) => ({ id, vramMb: 1000, tags: [] }));
  const found = { cpuCores: 8, ramMb: 16_000, gpus };
  const all = { cpuCores: null, ramMb: null, gpuIds: null };
  assert.deepEqual(limitResources(found, all), found);
  assert.deepEqual(limitResources(found, { cpuCores: 3, ramMb: 4000, gpuIds: [1] }), {
    cpuCores: 3,
    ramMb: 4000,
    gpus: [gpus[1]],
  });
  assert.deepEqual(limitResources(found, { ...all, gpuIds: [] }).gpus, []);
  assert.throws(
    () => limitResources(found, { ...all, gpuIds: [0, 7] }),
    new SettingsError(['SERVICE_WORKER_GPUS names GPUs that nvidia-smi does not show: 7; there are 0, 1']),
  );
});
