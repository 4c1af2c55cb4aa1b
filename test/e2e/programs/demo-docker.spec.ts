import assert from 'node:assert/strict';
import { cp, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'vitest';
import { assertNothingLeft, childPids, startDemo } from '../../support/programs/demo-process.js';
import { startTestEngine, type TestEngine } from '../../support/images/docker-engine.js';
import { makeDataDir, PROJECT } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const found = await startTestEngine();

function useEngine({ host }: TestEngine): Record<string, string> {
  return { SERVICE_WORKER_RUNTIME: '', SERVICE_WORKER_NETWORK: 'none', DOCKER_HOST: host };
}

describe('a demo beside a container engine', skipFor(found.skip), () => {
  it('runs nothing, and says why, when the engine can neither build nor find the images', async () => {
    const imagesDir = await makeDataDir();
    const examples = join(PROJECT, 'examples', 'images');
    for (const name of await readdir(examples)) {
      if (name.includes('.')) continue;
      await cp(join(examples, name), join(imagesDir, name), { recursive: true });
      // Nobody listens there, with or without a network.
      await writeFile(join(imagesDir, name, 'Dockerfile'), 'FROM 127.0.0.1:1/none\nCOPY program /program\n');
    }
    const env = { ...useEngine(found.engine), SERVICE_WORKER_IMAGES_DIR: imagesDir };
    const demo = await startDemo({ args: ['--exit'], env });
    assert.equal((await demo.exited).code, 1, demo.output);
    assert.match(
      demo.stderr,
      /^DOCKER_HOST names a container engine, but the engine answers, but the example image localhost\/longshore\/word-count cannot be built: ./,
    );
    const forced = await startDemo({ args: ['--exit'], env: { ...env, SERVICE_WORKER_RUNTIME: 'docker' } });
    assert.equal((await forced.exited).code, 1);
    assert.match(
      forced.stderr,
      /^SERVICE_WORKER_RUNTIME is docker, but the engine answers, but .* cannot be built/,
    );
    await assertNothingLeft(forced);
  });

  it('builds the images once and runs containers', async () => {
    // The examples start from an image of the network's, which the engine gets another way here.
    await found.engine.buildScript('base', 'true');
    for (const builds of [3, 0]) {
      const demo = await startDemo({ args: ['--exit'], env: useEngine(found.engine) });
      assert.equal((await demo.exited).code, 0, demo.output);
      assert.match(demo.stdout, /^the worker runs containers: a container engine answers$/m);
      assert.equal(demo.stdout.match(/^building the image /gm)?.length ?? 0, builds, demo.output);
      assert.deepEqual(await found.engine.containerIds(), []);
      await assertNothingLeft(demo);
    }
  });

  it('leaves no container behind when it is stopped, or its worker dies, in the middle of a run', async () => {
    for (const end of ['stop', 'crash'] as const) {
      const demo = await startDemo({ env: useEngine(found.engine) });
      await demo.untilOutput(/progress +PROGRESS +10 %/);
      if (end === 'stop') demo.signal('SIGINT');
      else for (const pid of await childPids(demo, 'worker')) process.kill(pid, 'SIGKILL');
      assert.equal((await demo.exited).code, end === 'stop' ? 0 : 1, demo.output);
      assert.deepEqual(await found.engine.containerIds(), []);
      await assertNothingLeft(demo);
    }
  });
});
