import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createReadStream, copyFileSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import { GAP_LINE } from '@longshore/worker/runtime/docker/container/container-output';
import type { ContainerSpec, RunningContainer } from '@longshore/worker/runtime/runtime';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { BUSYBOX } from '../../support/images/engine-programs.js';
import { PodmanEngine } from '../../support/images/podman-engine.js';
import { skipFor } from '../../support/skip.js';

describe('runs on the engine of Podman', skipFor(PodmanEngine.skip), () => {
  let engine: PodmanEngine;
  let image: string;
  const started: RunningContainer[] = [];

  beforeAll(async () => {
    engine = await PodmanEngine.start();
    const root = join(engine.folder, 'image');
    mkdirSync(join(root, 'bin'), { recursive: true });
    mkdirSync(join(root, 'tmp'));
    copyFileSync(BUSYBOX, join(root, 'bin', 'busybox'));
    for (const name of ['sh', 'cat', 'env', 'id', 'pwd', 'ls', 'grep', 'touch'])
      symlinkSync('busybox', join(root, 'bin', name));
    const archive = `${root}.tar`;
    execFileSync('tar', ['-C', root, '--owner=0', '--group=0', '-cf', archive, '.']);
    const report = await text(await engine.docker.importImage(createReadStream(archive)));
    image = /sha256:[0-9a-f]{64}/.exec(report)?.[0] ?? '';
    assert.notEqual(image, '', report);
  });

  afterEach(async () => {
    await Promise.all(started.splice(0).map((container) => container.remove()));
    assert.deepEqual(await engine.docker.listContainers({ all: true }), [], 'no container may be left');
  });

  afterAll(() => engine.stop());

  const runtime = () => runtimeFor(engine, { network: 'none' });

  /** What a shell script prints, and the warnings of its container. */
  async function printed(script: string, more: Partial<ContainerSpec> = {}) {
    const spec = { ...containerSpec(image, { word: 'a' }), command: ['/bin/sh', '-c', script], ...more };
    const container = await runtime().start(spec);
    started.push(container);
    const { lines, exit } = await readToEnd(container);
    const outputs = (await container.readOutputs())?.toString() ?? null;
    return { lines: textsOf(lines, 'stdout'), code: exit.exitCode, warnings: container.warnings, outputs };
  }

  it('get inputs, and their outputs and exit code are read', async () => {
    const script = 'cat "$SERVICE_INPUT_PATH"; echo \'{"n":1}\' >"$SERVICE_OUTPUT_PATH"; exit 3';
    const { lines, code, outputs, warnings } = await printed(script);
    assert.match(lines.join(''), /"word":\s?"a"/);
    assert.deepEqual([code, outputs?.trim(), warnings], [3, '{"n":1}', []]);
  });

  it('get environment, working folder and user', async () => {
    const more = { env: { A: 'b c' }, workdir: '/tmp', user: '1000:1000' };
    const { lines } = await printed('echo "$A"; pwd; id -u', more);
    assert.deepEqual(lines, ['b c', '/tmp', '1000']);
  });

  it('get their limits of memory, CPU and processes', async () => {
    const script =
      'cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/cpu.max';
    const limits = { ...containerSpec(image).limits, ramMb: 64, cpuMillis: 500, cpuLimitMillis: 500 };
    const { lines, warnings } = await printed(script, { limits });
    assert.deepEqual([lines[0], lines[1]?.split(' ')[0], warnings], [String(64 * 2 ** 20), '50000', []]);
  });

  it('are gone on with by the next process, to their exit code and outputs, with a gap in their log', async () => {
    const script =
      'echo lost; while [ ! -e /tmp/go ]; do :; done; echo \'{"n":2}\' >"$SERVICE_OUTPUT_PATH"; exit 4';
    const spec = {
      ...containerSpec(image),
      command: ['/bin/sh', '-c', script],
      secretNames: ['S'],
      env: { S: 'v' },
    };
    const first = await runtime().start(spec);
    started.push(first);
    const next = runtime();
    const found = (await next.findLeft()).find(({ runId }) => runId === spec.runId);
    assert.ok(found);
    const { container, secrets } = await next.adopt(found, { mounts: [], folders: [], secretFiles: [] });
    assert.deepEqual(secrets, { S: 'v' });
    const archive = pack();
    archive.entry({ name: 'go' }, '');
    archive.finalize();
    await engine.docker.getContainer(found.id).putArchive(await buffer(archive), { path: '/tmp' });
    const { lines, exit } = await readToEnd(container);
    assert.deepEqual(textsOf(lines, 'stderr'), [GAP_LINE]);
    assert.equal(exit.exitCode, 4);
    assert.equal((await container.readOutputs())?.toString().trim(), '{"n":2}');
  });

  it('get files and empty folders', async () => {
    const more = {
      files: [{ path: '/etc/app/c.conf', content: 'x=1', mode: 0o644, isSecret: false }],
      mounts: [{ path: '/scratch' }],
    };
    const { lines, code } = await printed('cat /etc/app/c.conf; touch /scratch/a && ls /scratch', more);
    assert.deepEqual([lines, code], [['x=1a'], 0]);
  });

  it('get no GPU without a word: a run that asks for one is not started, and the machine is unable', async () => {
    const limits = { ...containerSpec(image).limits, gpuIds: [0] };
    await assert.rejects(printed('env', { limits }), {
      ability: 'gpus',
      words: 'the container engine creates containers without the GPUs that are asked for',
    });
    await assert.rejects(runtime().probeGpus([0]), { ability: 'gpus' });
    await runtime().probe();
  });

  it('see no GPUs if they ask for none', async () => {
    const { lines } = await printed('env', { env: { NVIDIA_VISIBLE_DEVICES: 'all' } });
    assert.ok(lines.includes('NVIDIA_VISIBLE_DEVICES=void'), lines.join());
  });
});
