import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import { FakeDockerEngine, silence } from '../testing/fake-docker-engine.js';
import { MemoryLog } from '../testing/container-spec.js';
import { loadWorkerSettings } from '../settings/worker-settings.js';
import { chooseRuntime } from './choose-runtime.js';
import { engineProblem } from './docker/engine/docker-engine.js';

/** An engine answers at the default socket. */
const engineHere = (await engineProblem({})) === null;

describe('choice of the runtime', () => {
  const root = mkdtempSync(join(tmpdir(), 'longshore-choice-'));
  const images = join(root, 'images');
  mkdirSync(images);
  const engine = FakeDockerEngine.forEachTest();
  const away = { DOCKER_HOST: 'unix:///nowhere/docker.sock' };
  const nowhere = { SERVICE_WORKER_IMAGES_DIR: join(root, 'absent') };

  const here = () => ({ DOCKER_HOST: engine.host });
  afterAll(() => rmSync(root, { recursive: true }));

  /** Chooses by the settings that the worker program reads from these variables. */
  async function choose(env: NodeJS.ProcessEnv, log = new MemoryLog()) {
    const variables = { SERVICE_URL: 'http://localhost', SERVICE_API_KEY: 'k', ...env };
    const settings = loadWorkerSettings([], variables);
    return chooseRuntime({
      ...settings,
      env,
      workerId: 'w:1/a',
      instance: '1f3a90cc',
      log,
      baseDir: root,
    });
  }

  it('chooses Docker when an engine answers, also with example images present', async () => {
    const log = new MemoryLog();
    assert.equal((await choose({ ...here(), SERVICE_WORKER_IMAGES_DIR: images }, log)).name, 'docker');
    assert.deepEqual(log.warnings, []);
  });

  it('never runs processes in place of an engine that does not answer, also with example images present', async () => {
    for (const runtime of ['', 'docker']) {
      const env = { ...away, SERVICE_WORKER_IMAGES_DIR: images, SERVICE_WORKER_RUNTIME: runtime };
      await assert.rejects(
        choose(env),
        /^Error: No runtime for containers: the container engine at unix:\/\/\/nowhere\/docker.sock cannot be used: .*SERVICE_WORKER_RUNTIME=process/,
      );
    }
  });

  it.skipIf(engineHere)(
    'says that a selected Docker context is not read, unless DOCKER_HOST is set',
    async () => {
      const context = { DOCKER_CONTEXT: 'rootless' };
      await assert.rejects(
        choose({ ...context, DOCKER_HOST: '' }),
        /the Docker context 'rootless' is selected, but Longshore reads only DOCKER_HOST/,
      );
      await assert.rejects(
        choose({ ...context, ...away }),
        (error) => error instanceof Error && !error.message.includes('rootless'),
      );
    },
  );

  it('never replaces the configured runtime', async () => {
    const env = { SERVICE_WORKER_IMAGES_DIR: images };
    assert.equal((await choose({ ...env, ...here(), SERVICE_WORKER_RUNTIME: 'process' })).name, 'process');
    await assert.rejects(
      choose({ ...nowhere, SERVICE_WORKER_RUNTIME: 'process' }),
      /SERVICE_WORKER_IMAGES_DIR: .* is no folder/,
    );
  });

  it('refuses an unknown runtime and an invalid address', async () => {
    await assert.rejects(
      choose({ SERVICE_WORKER_RUNTIME: 'podman' }),
      /must be docker, process, kubernetes or slurm, got "podman"/,
    );
    await assert.rejects(
      choose({ SERVICE_WORKER_RUNTIME: 'docker', DOCKER_HOST: 'ssh://x' }),
      /DOCKER_HOST must look like/,
    );
  });

  it('does not wait for an engine that accepts and does not answer', async () => {
    engine.answerNext('GET /_ping', silence);
    assert.notEqual(await engineProblem(here()), null);
    assert.equal(await engineProblem(here()), null);
  });
});
