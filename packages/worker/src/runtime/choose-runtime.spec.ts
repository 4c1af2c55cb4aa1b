import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, it } from 'vitest';
import { SettingsError } from '@longshore/common/settings/setting';
import { FakeDockerEngine } from '../testing/fake-docker-engine.js';
import { silence } from '../testing/fake-engine-answers.js';
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
  /** The times to stop beyond the usual that a worker with these settings announces. */
  async function graces(env: NodeJS.ProcessEnv): Promise<string[]> {
    const { capabilities } = await choose(env);
    return capabilities.filter((name) => name.startsWith('stop_grace:'));
  }

  /** The limits of programs that a worker with these settings allows. */
  async function ulimits(env: NodeJS.ProcessEnv): Promise<string[]> {
    const { capabilities } = await choose(env);
    return capabilities.filter((name) => name.startsWith('ulimit:'));
  }

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

  it('warns of a runc with known weaknesses, or refuses it, by the choice of the operator', async () => {
    const components = [
      { Name: 'Engine', Version: '20.10.24+dfsg1' },
      { Name: 'runc', Version: '1.1.12+ds1' },
    ];
    const known = 'CVE-2025-31133, CVE-2025-52565, CVE-2025-52881';
    engine.version = { Version: '20.10.24+dfsg1', Components: components };
    const log = new MemoryLog();
    const { containerEngine } = await choose(here(), log);
    assert.deepEqual(containerEngine, {
      name: 'docker',
      version: '20.10.24+dfsg1',
      runtime: 'runc',
      runtime_version: '1.1.12+ds1',
    });
    const { message = '' } = log.warnings[0] ?? {};
    assert.ok(message.startsWith('runc 1.1.12+ds1 has known weaknesses'), message);
    assert.ok(message.includes(known) && message.includes('docs/security.md#'), message);
    await assert.rejects(choose({ ...here(), SERVICE_WORKER_OLD_ENGINE: 'refuse' }), (error) => {
      assert.ok(error instanceof SettingsError);
      assert.match(error.message, /^SERVICE_WORKER_OLD_ENGINE=refuse: runc 1\.1\.12\+ds1 .*CVE-2025-31133/);
      return true;
    });
    // Nothing is known against others.
    const other = { ...here(), SERVICE_WORKER_OLD_ENGINE: 'refuse', SERVICE_WORKER_OCI_RUNTIME: 'runsc' };
    const { containerEngine: chosen } = await choose(other);
    assert.deepEqual([chosen?.runtime, chosen?.runtime_version], ['runsc', null]);
  });

  it('tells names and versions of the engine as the service takes them, whatever the engine says', async () => {
    const strange = `20.10\u001b[31m\u202e\u2028\n${'😀'.repeat(100)}`;
    engine.version = { Version: strange, Components: [{ Name: 'odd\u2066', Version: '1.2\u202e3' }] };
    engine.info = { ...engine.info, DefaultRuntime: 'odd\u2066', Runtimes: { 'odd\u2066': {} } };
    const { containerEngine } = await choose(here());
    const version = `20.10 ${'😀'.repeat(59)}...`;
    assert.deepEqual(containerEngine, { name: 'docker', version, runtime: 'odd', runtime_version: '1.2 3' });
    engine.info = { ...engine.info, DefaultRuntime: '\u2066' };
    assert.equal((await choose(here())).containerEngine?.runtime, 'unknown');
  });

  it('reads the versions of Podman, and warns of a version that cannot be compared', async () => {
    engine.version = {
      Version: '4.3.1',
      Components: [
        { Name: 'Podman Engine', Version: '4.3.1' },
        { Name: 'OCI Runtime (crun)', Version: 'crun version 1.8.1\ncommit: f8a096be' },
      ],
    };
    engine.info = { ...engine.info, DefaultRuntime: 'crun', Runtimes: { crun: {} } };
    const { containerEngine } = await choose(here());
    assert.deepEqual(containerEngine, {
      name: 'podman',
      version: '4.3.1',
      runtime: 'crun',
      runtime_version: '1.8.1',
    });
    engine.info = { ...engine.info, DefaultRuntime: 'runc' };
    engine.version = { Version: '1', Components: [{ Name: 'runc', Version: '1.0-of-ours' }] };
    const log = new MemoryLog();
    await choose(here(), log);
    assert.match(log.warnings[0]?.message ?? '', /^the version of runc cannot be compared/);
  });

  it('does not start with an OCI runtime that the engine does not have, and says which it has', async () => {
    await assert.rejects(choose({ ...here(), SERVICE_WORKER_OCI_RUNTIME: 'kata' }), (error) => {
      assert.ok(error instanceof SettingsError);
      assert.equal(
        error.message,
        "SERVICE_WORKER_OCI_RUNTIME: the container engine does not have the runtime 'kata'; it has runc, runsc",
      );
      return true;
    });
  });

  it('announces longer graces only where the operator allows them', async () => {
    assert.deepEqual(await graces(here()), []);
    assert.deepEqual(await graces({ ...here(), SERVICE_WORKER_MAX_GRACE_S: '1800' }), [
      'stop_grace:900',
      'stop_grace:1800',
    ]);
    await assert.rejects(
      graces({ ...here(), SERVICE_WORKER_MAX_GRACE_S: '60' }),
      /must be one of 300, 900, 1800, 3600/,
    );
  });

  it('announces the limits of programs that the operator allows, and refuses settings of another form', async () => {
    assert.deepEqual(await ulimits(here()), []);
    assert.deepEqual(await ulimits({ ...here(), SERVICE_WORKER_ULIMITS: 'nofile=2048' }), [
      'ulimit:nofile:1024',
      'ulimit:nofile:2048',
    ]);
    assert.ok(
      (await ulimits({ ...here(), SERVICE_WORKER_ULIMITS: 'nofile=1024,memlock=-1' })).includes(
        'ulimit:memlock:unlimited',
      ),
    );
    for (const wrong of [
      'nofile=-1',
      'nofile=1000',
      'nofile=512',
      'memlock=0',
      'cpu=1024',
      'nofile',
      'core=-1,core=-1',
    ])
      await assert.rejects(
        ulimits({ ...here(), SERVICE_WORKER_ULIMITS: wrong }),
        /SERVICE_WORKER_ULIMITS/,
        wrong,
      );
  });

  it('does not wait for an engine that accepts and does not answer', async () => {
    engine.answerNext('GET /_ping', silence);
    assert.notEqual(await engineProblem(here()), null);
    assert.equal(await engineProblem(here()), null);
  });
});
