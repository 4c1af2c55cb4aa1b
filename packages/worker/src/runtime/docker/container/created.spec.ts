import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { containerSpec, runtimeOn } from '../../../testing/container-spec.js';
import type { ContainerSpec } from '../../runtime.js';
import { FakeDockerEngine } from '../../../testing/fake-docker-engine.js';

describe('a created container is compared with what was asked for', () => {
  const engine = FakeDockerEngine.forEachTest();

  const start = (limits: object, mounts: ContainerSpec['mounts'] = []) =>
    runtimeOn(engine).start({ ...containerSpec('tool', {}, limits), mounts });

  it('has no warning when it has all', async () => {
    assert.deepEqual((await start({ ramMb: 64, cpuLimitMillis: 500, gpuIds: [0] })).warnings, []);
  });

  it('tells the warnings of the engine about limits that it discards', async () => {
    engine.discards = ['Memory', 'NanoCpus'];
    engine.warnings = ['Your kernel does not support memory limit capabilities. Limitation discarded.'];
    assert.deepEqual((await start({ ramMb: 64, cpuLimitMillis: 500 })).warnings, engine.warnings);
  });

  it('tells of limits that the engine discards without a word', async () => {
    engine.discards = ['Memory', 'NanoCpus'];
    assert.deepEqual((await start({ ramMb: 64, cpuLimitMillis: 500 })).warnings, [
      'the container engine discards limits of memory',
      'the container engine discards limits of CPU',
    ]);
    assert.deepEqual((await start({})).warnings, [], 'a run without limits misses none');
  });

  it('is not started without its GPUs', async () => {
    engine.discards = ['DeviceRequests'];
    await assert.rejects(start({ gpuIds: [0] }), {
      ability: 'gpus',
      words: 'the container engine creates containers without the GPUs that are asked for',
    });
    assert.ok(!engine.routes().includes('POST /containers/ID/start'));
    assert.equal(engine.containers.size, 0);
  });

  it('is not started without one of its mounts', async () => {
    engine.discards = ['Mounts'];
    await assert.rejects(start({}, [{ path: '/scratch' }]), /left out a mount/);
    assert.equal(engine.containers.size, 0);
  });

  it('lacks limits that the engine says it discards for all containers', async () => {
    engine.info = { ...engine.info, MemoryLimit: false, CpuCfsQuota: true, PidsLimit: false };
    const told = await runtimeOn(engine).discardedLimits();
    assert.deepEqual(
      told.map(({ ability }) => ability),
      ['ram_limit', 'pids_limit'],
    );
  });
});
