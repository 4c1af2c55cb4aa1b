import assert from 'node:assert/strict';
import { test } from 'vitest';
import { capabilitiesOfConstraints, capabilitiesOfOption } from './capabilities.js';

test('constraints need a capability where they have what interface.md does not', () => {
  for (const [constraints, needed] of [
    [{ cpu: 2 }, []],
    [{ cpu: 2, cpu_millis: 2000, cpu_limit_millis: 2000, gpus: 0, gpu_selector: [] }, []],
    [{ cpu: 2, cpu_millis: 1500 }, ['cpu_millis']],
    [{ cpu: 2, cpu_limit_millis: 3000 }, ['cpu_millis']],
    [{ cpu: 2, cpu_limit_millis: 0 }, ['cpu_millis']],
    [{ cpu: 0, gpus: 1 }, ['gpus']],
    [{ cpu: 0, gpu_selector: ['a100'], shm_mb: 64 }, ['gpus', 'shm']],
  ] as const) {
    assert.deepEqual(capabilitiesOfConstraints(constraints), needed);
  }
});

test('an option needs what it declares, which goes on with a text, and for items what their members need', () => {
  assert.deepEqual(capabilitiesOfOption([], 'a'), []);
  assert.deepEqual(capabilitiesOfOption(['env'], { A: 'a' }), ['env']);
  assert.deepEqual(capabilitiesOfOption(['network:'], 'none'), ['network:none']);
  const volumes = [
    { volume: 'data', path: '/data', read_only: true },
    { volume: 'results', path: '/out', read_only: false },
    { volume: 'results', path: '/more' },
  ];
  const ofVolumes = ['volume:data', 'volume:results:rw', 'volume:results:rw'];
  const ofMounts = [
    { name: 'volume:', member: 'volume', readOnly: 'read_only' },
    { name: 'scratch', member: 'scratch_mb' },
  ];
  assert.deepEqual(capabilitiesOfOption(ofMounts, volumes), ofVolumes);
  const scratch = [{ scratch_mb: 1, volume: null, path: '/scratch' }];
  assert.deepEqual(capabilitiesOfOption(ofMounts, scratch), ['scratch']);
});
