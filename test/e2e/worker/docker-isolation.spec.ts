import assert from 'node:assert/strict';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, it, onTestFinished, test } from 'vitest';
import { DockerRuntime } from '@longshore/worker/runtime/docker/docker.runtime';
import { ImagePolicy } from '@longshore/worker/runtime/docker/images/image-policy';
import type { RunningContainer } from '@longshore/worker/runtime/runtime';
import {
  ANY_IMAGE,
  containerSpec,
  MemoryLog,
  readToEnd,
  textsOf,
} from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { parseOutputs } from '@longshore/worker/runtime/outputs';
import { skipFor } from '../../support/skip.js';

const NEVER = new AbortController().signal;

const forTests = await startTestEngine();

describe('a container on a real engine', skipFor(forTests.skip), () => {
  const started: RunningContainer[] = [];

  async function startScript(name: string, script: string): Promise<RunningContainer> {
    const image = await forTests.engine.buildScript(name, script);
    const container = await runtime().start(containerSpec(image));
    started.push(container);
    return container;
  }

  afterEach(async () => {
    await Promise.all(started.splice(0).map((container) => container.remove()));
    assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
  });

  it('keeps a set-uid program of a root inside its container', async () => {
    const script = `
      mkdir /longshore/sub && cp /bin/busybox /longshore/sub/id && chmod 4755 /longshore/sub/id
      echo ready; sleep 600`;
    const container = await startScript('set-uid', script);
    const { value } = await container.lines[Symbol.asyncIterator]().next();
    assert.equal(value?.text, 'ready');
    const [id = ''] = await forTests.engine.containerIds();
    const { Mounts, HostConfig } = await forTests.engine.docker.getContainer(id).inspect();
    assert.deepEqual([Mounts, HostConfig.Binds ?? []], [[], []]);
    // Its file system is in a folder that other users may not enter.
    assert.equal(statSync(join(forTests.engine.folder, 'data')).mode & 0o007, 0);
  });

  it('reads the outputs and removes a container that nested folders deeper than a path may be long', async () => {
    const name = 'd'.repeat(200);
    const script = `
      echo '{"deep":true}' >"$SERVICE_OUTPUT_PATH"
      cd /longshore; i=0
      while [ $i -lt 100 ]; do mkdir ${name} && cd -P ${name} 2>/dev/null || exit 9; i=$((i + 1)); done`;
    const container = await startScript('deep', script);
    assert.deepEqual((await container.exit).exitCode, 0);
    assert.deepEqual(parseOutputs(await container.readOutputs())?.outputs, { deep: true });
    await container.remove();
    assert.deepEqual(await forTests.engine.containerIds(), []);
  });

  it('runs as the user and in the folder of the run, also where the image has neither', async () => {
    const script = 'pwd; id -u; id -g; cat "$SERVICE_INPUT_PATH" >"$SERVICE_OUTPUT_PATH"';
    const image = await forTests.engine.buildScript('container', script);
    for (const [user, ids] of [
      ['4711', ['4711', '0']],
      ['4711:4712', ['4711', '4712']],
    ] as const) {
      const spec = { ...containerSpec(image, { a: 1 }), user, workdir: '/not/there yet' };
      const container = await runtime().start(spec);
      started.push(container);
      const { lines, exit } = await readToEnd(container);
      assert.equal(exit.exitCode, 0, JSON.stringify(lines));
      assert.deepEqual(textsOf(lines, 'stdout'), [spec.workdir, ...ids]);
      assert.deepEqual(parseOutputs(await container.readOutputs())?.outputs, { a: 1 });
    }
  });

  it('executes nothing as root, or as a user whose number only the image knows, where the worker refuses root', async () => {
    const own = await forTests.engine.buildScript('rootless', 'id -u', ['USER 4711']);
    const root = await forTests.engine.buildScript('root', 'id -u');
    const named = await forTests.engine.buildScript('named', 'id -u', ['USER nobody-knows-me']);
    const rootless = runtimeFor(forTests.engine, { user: 'nonroot' });
    for (const [image, user, uid] of [
      [own, null, '4711'],
      [root, '12:0', '12'],
    ] as const) {
      const container = await rootless.start({ ...containerSpec(image), user });
      started.push(container);
      assert.deepEqual(textsOf((await readToEnd(container)).lines, 'stdout'), [uid]);
    }
    for (const [image, user, what] of [
      [root, null, 'root'],
      [own, '0', "'0'"],
      [own, '00:1', "'00'"],
      [named, null, "'nobody-knows-me'"],
    ] as const) {
      await assert.rejects(rootless.start({ ...containerSpec(image), user }), {
        name: 'RunFault',
        message: `This worker executes no container as root, and the user of this one is ${what}: give the run a \`user\` as a number above 0`,
      });
    }
  });

  for (const [what, script, reason] of [
    ['a symbolic link', 'ln -sf /etc/passwd "$SERVICE_OUTPUT_PATH"', /no regular file/],
    ['a folder', 'rm "$SERVICE_OUTPUT_PATH"; mkdir "$SERVICE_OUTPUT_PATH"', /no regular file/],
    ['a pipe', 'rm "$SERVICE_OUTPUT_PATH"; mkfifo "$SERVICE_OUTPUT_PATH"', /no regular file/],
    ['many sparse gigabytes', 'truncate -s 64G "$SERVICE_OUTPUT_PATH"', /larger than 16777216 bytes/],
  ] as const) {
    it(`refuses an output file that is ${what}`, async () => {
      const container = await startScript('trick', script);
      assert.equal((await container.exit).exitCode, 0);
      await assert.rejects(container.readOutputs(), reason);
    });
  }

  it('reads an output file that its container closed, and none from one that removed it', async () => {
    const closed = await startScript(
      'closed',
      'echo "{}" >"$SERVICE_OUTPUT_PATH"; chmod 0 "$SERVICE_OUTPUT_PATH"',
    );
    await closed.exit;
    assert.deepEqual(parseOutputs(await closed.readOutputs())?.outputs, {});
    const removed = await startScript('no-output', 'rm -r /longshore');
    await removed.exit;
    assert.equal(parseOutputs(await removed.readOutputs()), undefined);
  });

  it('runs no health check of an image, and stops by SIGTERM whatever the image says', async () => {
    const image = await forTests.engine.publishScript(
      'health',
      `trap 'exit 7' TERM; echo up; sleep 600 & wait $!`,
      ['HEALTHCHECK --interval=1ms CMD touch /longshore/checked', 'STOPSIGNAL SIGCONT'],
    );
    const container = await runtime().start(containerSpec(await runtime().pull(image, NEVER)));
    started.push(container);
    await container.lines[Symbol.asyncIterator]().next();
    const [id = ''] = await forTests.engine.containerIds();
    const { State, Config } = await forTests.engine.docker.getContainer(id).inspect();
    assert.deepEqual([State.Health, Config.Healthcheck?.Test], [undefined, ['NONE']]);
    await container.stop(30);
    assert.equal((await container.exit).exitCode, 7);
  });

  it('asks no loopback address for an image unless it may, and repeats nothing of what answered', async () => {
    let connections = 0;
    const victim = createServer((socket) => {
      connections += 1;
      socket.on('error', () => undefined).end('SSH-2.0-SECRET-BANNER\r\n');
    });
    onTestFinished(() => void victim.close());
    victim.listen(0, '127.0.0.1');
    await once(victim, 'listening');
    const address = victim.address();
    const image = `127.0.0.1:${typeof address === 'object' ? address?.port : ''}/team/tool`;
    const policy = new ImagePolicy({ allowedImages: null, localRegistries: false });
    const refused = runtime(new MemoryLog(), policy).pull(image, NEVER);
    await assert.rejects(refused, /SERVICE_WORKER_LOCAL_REGISTRIES/);
    assert.equal(connections, 0);
    const log = new MemoryLog();
    await assert.rejects(runtime(log).pull(image, NEVER), /its registry did not provide it$/);
    assert.ok(connections > 0);
    assert.match(JSON.stringify(log.warnings), /SECRET-BANNER/);
  });
});

describe('an engine that maps the users of containers', () => {
  test('runs a container whose root is no user of the host, with its inputs and outputs', async (context) => {
    const remapped = await startTestEngine({ remappedTo: 2_000_000 });
    if (remapped.skip !== false) {
      context.skip(remapped.skip);
      return;
    }
    const { engine } = remapped;
    const script = 'cat /proc/self/uid_map; cat "$SERVICE_INPUT_PATH" >"$SERVICE_OUTPUT_PATH"';
    const image = await engine.buildScript('mapped', script);
    const container = await runtime(new MemoryLog(), ANY_IMAGE, engine).start(containerSpec(image, { a: 1 }));
    const { lines, exit } = await readToEnd(container);
    assert.equal(exit.exitCode, 0, JSON.stringify(lines));
    assert.match(lines[0]?.text ?? '', /^\s*0\s+2000000\s+65536$/);
    assert.deepEqual(parseOutputs(await container.readOutputs())?.outputs, { a: 1 });
    await container.remove();
  });
});

function runtime(log = new MemoryLog(), policy = ANY_IMAGE, engine = forTests.engine): DockerRuntime {
  return runtimeFor(engine, { log, policy });
}
