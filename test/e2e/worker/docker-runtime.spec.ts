import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, it } from 'vitest';
import type { JsonObject } from '@longshore/common/json/json-value';
import { RESTART_LINE } from '@longshore/worker/runtime/docker/container/container-output';
import { DockerRuntime } from '@longshore/worker/runtime/docker/docker.runtime';
import { engineProblem } from '@longshore/worker/runtime/docker/engine/docker-engine';
import type { RunningContainer } from '@longshore/worker/runtime/runtime';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { containerSpec, MemoryLog, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { parseOutputs } from '@longshore/worker/runtime/outputs';
import { skipFor } from '../../support/skip.js';

const NEVER = new AbortController().signal;
const MB = 1024 * 1024;

const forTests = await startTestEngine();

/** Processes of a container. */
const PIDS = 512;

describe('docker runtime on a real engine', skipFor(forTests.skip), () => {
  const started: RunningContainer[] = [];

  /** Starts an image of its own from a script that is in no registry. */
  async function startScript(name: string, script: string, limits = {}): Promise<RunningContainer> {
    const image = await forTests.engine.buildScript(name, script);
    const container = await runtime().start(containerSpec(image, {}, limits));
    started.push(container);
    return container;
  }

  afterEach(async () => {
    await Promise.all(started.splice(0).map((container) => container.remove()));
    assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
  });

  it('answers a ping where an engine listens and not where none does', async () => {
    assert.equal(await engineProblem({ DOCKER_HOST: forTests.engine.host }), null);
    assert.notEqual(await engineProblem({ DOCKER_HOST: 'unix:///nowhere/docker.sock' }), null);
  });

  it('pulls the newest image from the registry and runs it to its outputs', async () => {
    const image = await forTests.engine.publishExample('word-count');
    const spec = containerSpec(image, { text: 'three little words\nand more' });
    await runtime().pull(image, NEVER);
    const container = await runtime().start(spec);
    started.push(container);
    const { exit, lines } = await readToEnd(container);
    assert.deepEqual(exit, { exitCode: 0, outOfMemory: false }, JSON.stringify(lines));
    assert.deepEqual(parseOutputs(await container.readOutputs())?.outputs, {
      words: 5,
      lines: 2,
      characters: 27,
    });
  });

  it('pulls again when the registry has a newer image under the same name', async () => {
    const first = await forTests.engine.publishScript('changing', 'echo first');
    await runtime().pull(first, NEVER);
    const { Id: old } = await forTests.engine.docker.getImage(first).inspect();
    await forTests.engine.publishScript('changing', 'echo second');
    await forTests.engine.docker.getImage(old).tag({ repo: first.replace(/:latest$/, ''), tag: 'latest' });
    await runtime().pull(first, NEVER);
    const container = await runtime().start(containerSpec(first));
    started.push(container);
    assert.deepEqual((await readToEnd(container)).lines, [{ stream: 'stdout', text: 'second' }]);
  });

  it('keeps the lines of both streams apart and in order, and tells the exit code', async () => {
    const image = await forTests.engine.publishExample('fail');
    const container = await runtime().start(await pulled(image, { exit_code: 7, message: 'broken "pipe"' }));
    started.push(container);
    const { lines, exit } = await readToEnd(container);
    assert.deepEqual(exit, { exitCode: 7, outOfMemory: false });
    assert.deepEqual(textsOf(lines, 'stdout'), ['starting', 'ending with exit code 7']);
    assert.deepEqual(textsOf(lines, 'stderr'), ['about to fail, as asked', 'error: broken "pipe"']);
  });

  it('shows progress while the container works', async () => {
    const image = await forTests.engine.publishExample('progress');
    const container = await runtime().start(await pulled(image, { steps: 4, seconds: 8 }));
    started.push(container);
    let hasEnded = false;
    container.exit.finally(() => (hasEnded = true)).catch(() => undefined);
    const arrivals: boolean[] = [];
    for await (const { text } of container.lines) if (text.includes('PROGRESS')) arrivals.push(hasEnded);
    assert.equal(arrivals.length, 4);
    assert.equal(arrivals[0], false, 'the lines arrived in one go, after the end');
    assert.equal((await container.exit).exitCode, 0);
  });

  it('misses neither output nor exit code of containers that end at once', async () => {
    const image = await forTests.engine.buildScript('short', 'echo here; exit 3');
    for (let i = 0; i < 10; i++) {
      const container = await runtime().start(containerSpec(image));
      started.push(container);
      const { lines, exit } = await readToEnd(container);
      assert.deepEqual(lines, [{ stream: 'stdout', text: 'here' }]);
      assert.equal(exit.exitCode, 3);
    }
  });

  it('uses the local image when the registry is away, and says clearly when there is none', async () => {
    const log = new MemoryLog();
    const image = await forTests.engine.publishScript('kept', 'echo kept');
    const gone = await forTests.engine.publishScript('gone', 'echo gone');
    await runtime().pull(image, NEVER);
    await forTests.engine.stopRegistry();
    try {
      await runtime(log).pull(image, NEVER);
      assert.equal(log.warnings.length, 1);
      const container = await runtime().start(containerSpec(image));
      started.push(container);
      assert.equal((await container.exit).exitCode, 0);
      await assert.rejects(
        runtime().pull(gone, NEVER),
        /could not be pulled, and the worker has none of that name: its registry cannot be reached/,
      );
    } finally {
      await forTests.engine.startRegistry();
    }
  });

  it('says that an image is in no registry, or that its name cannot be one', async () => {
    const image = `${forTests.engine.registry}/examples/nowhere:1`;
    await assert.rejects(runtime().pull(image, NEVER), /nowhere:1' was not found, and the worker has none/);
    await assert.rejects(
      runtime().pull('No/Such:Image', NEVER),
      /'No\/Such:Image' is not a valid image reference/,
    );
    await assert.rejects(
      runtime().start(containerSpec(image)),
      /could not be created: the worker does not have the image/,
    );
  });

  it('ends a container that outgrows its memory and says that it was the memory', async () => {
    const hog = `awk 'BEGIN { s = "xxxxxxxxxxxxxxxx"; for (;;) s = s s }'`;
    const container = await startScript('hog', `exec ${hog}`, { ramMb: 32 });
    const { exit } = await readToEnd(container);
    assert.deepEqual(exit, { exitCode: 137, outOfMemory: true });
  });

  it('drops every capability, forbids new privileges and limits the number of processes', async () => {
    const script = `
      grep -E '^(Cap|NoNewPrivs)' /proc/self/status | tr -d '\\t'
      cat /sys/fs/cgroup/pids/pids.max 2>/dev/null || cat /sys/fs/cgroup/pids.max
      ls /var/run/docker.sock /run/docker.sock 2>/dev/null
      env | grep -o '^SERVICE[A-Z_]*' | sort
      ls /longshore`;
    const { lines } = await readToEnd(await startScript('privileges', script));
    assert.deepEqual(textsOf(lines, 'stdout'), [
      ...['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'].map((name) => `${name}:0000000000000000`),
      'NoNewPrivs:1',
      String(PIDS),
      ...['CPU', 'INPUT_PATH', 'OUTPUT_PATH', 'RAM_MB', 'RUN_ATTEMPT', 'RUN_ID'].map(
        (name) => `SERVICE_${name}`,
      ),
      'input.json',
      'output.json',
    ]);
  });

  it('keeps a fork bomb within the limit of processes', async () => {
    const script = `i=0; while [ $i -lt ${PIDS + 100} ]; do sleep 30 & i=$((i + 1)); done; echo unlimited`;
    const { lines, exit } = await readToEnd(await startScript('forks', script));
    assert.notEqual(exit.exitCode, 0);
    assert.ok(!textsOf(lines, 'stdout').includes('unlimited'));
    assert.match(textsOf(lines, 'stderr').join('\n'), /fork/);
  });

  it('reaps the orphans of a program that waits for none, where the engine has a first process', async (t) => {
    const info: unknown = await forTests.engine.docker.info();
    const init: unknown = Reflect.get(Object(info), 'InitBinary');
    if (typeof init !== 'string' || init === '') t.skip('the engine has no first process for containers');
    // More than the container may have at once. `exec` makes the program the parent of none.
    const script = `
      ( i=0; while [ $i -lt ${PIDS + 88} ]; do sh -c 'true &'; i=$((i + 1)); done
        while grep -q '^State:.Z' /proc/[0-9]*/status 2>/dev/null; do sleep 0.1; done; echo reaped ) &
      exec sleep 600`;
    const container = await startScript('orphans', script);
    const { value } = await container.lines[Symbol.asyncIterator]().next();
    assert.equal(value?.text, 'reaped');
  });

  it('lets a program that runs as another user write its outputs', async () => {
    const script = 'cat "$SERVICE_INPUT_PATH" >"$SERVICE_OUTPUT_PATH" && id -u';
    const image = await forTests.engine.publishScript('other-user', script, ['USER 12345:12345']);
    const spec = await pulled(image, { seen: true });
    const container = await runtime().start(spec);
    started.push(container);
    const { lines } = await readToEnd(container);
    assert.deepEqual(lines, [{ stream: 'stdout', text: '12345' }]);
    assert.deepEqual(parseOutputs(await container.readOutputs())?.outputs, { seen: true });
  });

  it('stops a program that obeys without killing it', async () => {
    const image = await forTests.engine.publishExample('progress');
    const container = await runtime().start(await pulled(image, { steps: 2, seconds: 600 }));
    started.push(container);
    // The program is asked: the grace outlasts the test.
    await container.stop(3_600);
    assert.equal((await container.exit).exitCode, 143);
  });

  it('stops a program that ignores SIGTERM after the grace', async () => {
    const container = await startScript('stubborn', `trap '' TERM; echo up; while :; do sleep 1; done`);
    await firstLine(container);
    await container.stop(2);
    assert.deepEqual(await container.exit, { exitCode: 137, outOfMemory: false });
    await container.stop(2);
  });

  it('removes a running container, and removes it twice without complaint', async () => {
    const container = await startScript('removed', 'echo up; sleep 600');
    await firstLine(container);
    await container.remove();
    assert.deepEqual(await forTests.engine.containerIds(), []);
    await container.remove();
    await container.stop(1);
  });

  it('slows a flood of output down to the pace of the reader and keeps memory flat', async (t) => {
    const line = 'x'.repeat(99);
    const bytes = 50 * MB;
    const container = await startScript('flood', `yes ${line} | head -c ${bytes}`);
    const before = memory();
    let peak = 0;
    let count = 0;
    for await (const { text } of container.lines) {
      count += 1;
      if (count === 1) await paused(container);
      if (count % 1_000 === 0) await sleep(2);
      if (count % 50_000 === 0) peak = Math.max(peak, memory() - before);
      if (text !== line)
        assert.ok(line.startsWith(text) && count === Math.ceil(bytes / 100), `line ${count}: ${text}`);
    }
    assert.equal(count, Math.ceil(bytes / 100));
    assert.equal((await container.exit).exitCode, 0);
    await t.annotate(`memory grew by at most ${(peak / MB).toFixed(1)} MB`);
    // Up to 9 MB are read ahead.
    assert.ok(peak < 25 * MB, `memory grew by ${Math.round(peak / MB)} MB`);
  });

  it('finds and removes what an earlier life of the same worker left, and nothing of others', async () => {
    const image = await forTests.engine.buildScript('left', 'sleep 600');
    await runtime().start(containerSpec(image));
    await runtime().start(containerSpec(image));
    const other = await runtime(new MemoryLog(), 'e2e-worker-2').start(containerSpec(image));
    started.push(other);
    assert.equal(await runtime().removeLeftovers(), 2);
    assert.equal((await forTests.engine.containerIds()).length, 1);
    assert.equal(await runtime().removeLeftovers(), 0);
  });

  it('shows by a probe that containers start, whatever the image would execute, and that they do not', async () => {
    const user = ['USER nobody-knows-me', 'WORKDIR /no/such/folder'];
    const image = await forTests.engine.publishScript('probed', 'echo executed', user);
    await runtime().pull(image, NEVER);
    await assert.rejects(runtime().start(containerSpec(image)), {
      name: 'RunFault',
      message: "The container could not be started: the image's user does not exist",
    });
    const images = await forTests.engine.docker.listImages({ all: true });
    await runtime().probe();
    assert.deepEqual(await forTests.engine.containerIds(), []);
    assert.equal((await forTests.engine.docker.listImages({ all: true })).length, images.length);
    const away = runtimeFor({ host: 'unix:///nowhere/docker.sock' });
    await assert.rejects(away.probe(), /ENOENT/);
  });

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    it(`knows that a restart of the engine by ${signal} ended a container`, async () => {
      const container = await startScript('survivor', `trap 'exit 9' TERM; echo up; sleep 600 & wait $!`);
      const lines = container.lines[Symbol.asyncIterator]();
      await lines.next();
      await forTests.engine.restartEngine(signal);
      await assert.rejects(container.exit, {
        name: 'EngineFault',
        message: /^The container engine stopped while the container was running/,
      });
      assert.equal((await lines.next()).value?.text, RESTART_LINE);
      assert.equal((await lines.next()).done, true);
    });
  }
});

/** Waits for the first line, without giving up the rest. */
async function firstLine(container: RunningContainer): Promise<void> {
  await container.lines[Symbol.asyncIterator]().next();
}

/** Bytes in use after a garbage collection. */
function memory(): number {
  gc?.();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

function runtime(log = new MemoryLog(), workerId = 'e2e-worker'): DockerRuntime {
  return runtimeFor(forTests.engine, { workerId, log, pids: PIDS });
}

/** Reads nothing for a while: the container must not get further meanwhile, so it is still there afterwards. */
async function paused(container: RunningContainer): Promise<void> {
  const hasEnded = container.exit.then(() => true);
  assert.equal(
    await Promise.race([hasEnded, sleep(3_000, false)]),
    false,
    'the container did not wait for its reader',
  );
}

async function pulled(image: string, inputs: JsonObject) {
  await runtime().pull(image, NEVER);
  return containerSpec(image, inputs);
}
