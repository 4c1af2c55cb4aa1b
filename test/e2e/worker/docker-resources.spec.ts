import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { afterEach, describe, it } from 'vitest';
import type { ContainerLimits, RunningContainer } from '@longshore/worker/runtime/runtime';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

const MB = 1024 * 1024;

/** Whether the control groups are of version 1: it has no word for "no quota", and keeps weights as they were given. */
const IS_V1 = existsSync('/sys/fs/cgroup/cpu');
const NO_QUOTA = IS_V1 ? '-1' : 'max';

const forTests = await startTestEngine();

describe('the resources of a container on a real engine', skipFor(forTests.skip), () => {
  const started: RunningContainer[] = [];

  async function startScript(
    name: string,
    script: string,
    limits: Partial<ContainerLimits>,
  ): Promise<RunningContainer> {
    const image = await forTests.engine.buildScript(name, script);
    const container = await runtimeFor(forTests.engine).start(containerSpec(image, {}, limits));
    started.push(container);
    return container;
  }

  afterEach(async () => {
    await Promise.all(started.splice(0).map((container) => container.remove()));
    assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
  });

  it('shows the container the limits of the run', async () => {
    const script = [
      'cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max',
      'cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d" " -f1 /sys/fs/cgroup/cpu.max',
    ].join('\n');
    const container = await startScript('limits', script, {
      ramMb: 64,
      cpuMillis: 1000,
      cpuLimitMillis: 1000,
    });
    const { lines } = await readToEnd(container);
    assert.deepEqual(textsOf(lines, 'stdout'), [String(64 * MB), '100000']);
  });

  it('gives the container parts of a core: the limit as time of every period, the request as a weight', async () => {
    const script = [
      'cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cut -d" " -f1 /sys/fs/cgroup/cpu.max',
      'cat /sys/fs/cgroup/cpu/cpu.shares 2>/dev/null || cat /sys/fs/cgroup/cpu.weight',
    ].join('\n');
    for (const [limits, quota, shares] of [
      [{ cpuMillis: 500, cpuLimitMillis: 500 }, '50000', 512],
      [{ cpuMillis: 250, cpuLimitMillis: 750 }, '75000', 256],
      [{ cpuMillis: 250, cpuLimitMillis: 0 }, NO_QUOTA, 256],
      [{ cpuMillis: 500, cpuLimitMillis: 1_000_000 }, String(availableParallelism() * 100_000), 512],
    ] as const) {
      const { lines } = await readToEnd(await startScript('parts', script, limits));
      const [shownQuota, shownShares] = textsOf(lines, 'stdout');
      assert.equal(shownQuota, quota);
      if (IS_V1) assert.equal(Number(shownShares), shares);
    }
  });

  it('sets the limits of the program that the run says, soft and hard', async () => {
    const image = await forTests.engine.buildScript(
      'ulimits',
      'ulimit -Sn; ulimit -Hn; ulimit -l; ulimit -c',
    );
    const spec = { ...containerSpec(image), ulimits: { nofile: 2048, memlock: 65_536, core: 0 } };
    const container = await runtimeFor(forTests.engine).start(spec);
    started.push(container);
    const { lines } = await readToEnd(container);
    assert.deepEqual(textsOf(lines, 'stdout'), ['2048', '2048', '64', '0']);
  });

  it('gives /dev/shm the size that the run says, else its memory, else 64 MB', async () => {
    const sizes: (string | undefined)[] = [];
    for (const limits of [{ shmMb: 100, ramMb: 200 }, { ramMb: 200 }, {}]) {
      const { lines } = await readToEnd(
        await startScript('shm', "df -m /dev/shm | awk 'END { print $2 }'", limits),
      );
      sizes.push(textsOf(lines, 'stdout')[0]);
    }
    assert.deepEqual(sizes, ['100', '200', '64']);
  });

  it('ends a container that fills a /dev/shm beyond its memory, and says that it was the memory', async () => {
    const fill = 'dd if=/dev/zero of=/dev/shm/x bs=1M count=60; echo wrote';
    const small = await readToEnd(await startScript('fill', fill, { shmMb: 16, ramMb: 32 }));
    assert.deepEqual(textsOf(small.lines, 'stdout'), ['wrote'], 'a full one only refuses to grow');
    const large = await readToEnd(await startScript('fill', `exec ${fill}`, { ramMb: 32 }));
    assert.deepEqual(large.exit, { exitCode: 137, outOfMemory: true });
  });

  it('explains why limits that this machine cannot have are refused, and leaves nothing behind', async () => {
    const image = await forTests.engine.buildScript('greedy', 'true');
    await assert.rejects(
      runtimeFor(forTests.engine).start(
        containerSpec(image, {}, { cpuMillis: 4_096_000, cpuLimitMillis: 4_096_000 }),
      ),
      /could not be created:.* CPUs/,
    );
    const gpu = runtimeFor(forTests.engine).start(containerSpec(image, {}, { gpuIds: [0, 1] }));
    await assert.rejects(gpu, /could not be started:.*GPU/);
  });
});
