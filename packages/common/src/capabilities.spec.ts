import assert from 'node:assert/strict';
import { test } from 'vitest';
import { capabilitiesOfConstraints, capabilitiesOfOption, ulimitCapabilities } from './capabilities.js';

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

const needed = (ulimits: object): string[] => capabilitiesOfOption(['ulimit:'], ulimits);

test('limits of a program need the least power of two that they are within, which workers announce up to what they allow', () => {
  assert.deepEqual(needed({ nofile: 1 }), ['ulimit:nofile:1024']);
  assert.deepEqual(needed({ nofile: 65_536, memlock: -1 }), [
    'ulimit:nofile:65536',
    'ulimit:memlock:unlimited',
  ]);
  assert.deepEqual(needed({ nofile: 65_537, core: 0 }), ['ulimit:nofile:131072', 'ulimit:core:65536']);
  assert.deepEqual(ulimitCapabilities({}), []);
  assert.deepEqual(ulimitCapabilities({ nofile: 4096 }), [
    'ulimit:nofile:1024',
    'ulimit:nofile:2048',
    'ulimit:nofile:4096',
  ]);
  const unlimited = ulimitCapabilities({ memlock: -1, stack: 65_536 });
  for (const stack of [0, 65_536]) {
    for (const memlock of [0, 1, 2 ** 40, -1])
      assert.ok(needed({ memlock, stack }).every((one) => unlimited.some((announced) => announced === one)));
  }
  assert.ok(needed({ stack: 65_537 }).every((one) => !unlimited.some((announced) => announced === one)));
});
