import assert from 'node:assert/strict';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { FakeApiServer } from '../../support/kubernetes/fake-api-server.js';
import { LauncherScene } from '../../support/kubernetes/launcher-scene.js';
import {
  OPTION_SCENARIOS,
  OPTION_VOLUMES,
  storeOptionSecrets,
} from '../../support/kubernetes/option-scenarios.js';
import { SCENARIOS } from '../../support/kubernetes/scenarios.js';
import { until, type TestProcess } from '../../support/service-process.js';

describe('a launcher and the answers of a real Kubernetes', () => {
  let server: FakeApiServer;
  let scene: LauncherScene;
  let launcher: TestProcess;

  beforeAll(async () => {
    server = await FakeApiServer.start();
    const { kubeconfig, namespace } = server;
    scene = await LauncherScene.start({ kubeconfig, namespace, volumes: OPTION_VOLUMES });
    await storeOptionSecrets(scene);
    launcher = await scene.launcher();
  });
  afterAll(async () => {
    await scene.end();
    await server.stop();
  });
  afterEach(async () => {
    let left: string[] = [];
    const isClean = () => (left = server.leftovers()).length === 0;
    await until(isClean, `nothing is left of ${left.join(', ')}`);
  });

  /** A run whose job goes through a recording. */
  const create = (name: string, body: Readonly<Record<string, unknown>> = {}) =>
    scene.runs.create(`recorded/${name}:1`, body);

  for (const { name, promise, body, judge } of [...SCENARIOS, ...OPTION_SCENARIOS]) {
    test(promise, async () => {
      const { image: _, ...rest } = body;
      await judge(scene, await create(name, rest));
    });
  }

  test('a run whose options reach the cluster otherwise than when they were proved is refused', async () => {
    const grow = OPTION_SCENARIOS.find(({ name }) => name === 'options/grow');
    const { image: _, ...rest } = grow?.body ?? {};
    const run = await create('options/grow', {
      ...rest,
      constraints: { ram_mb: 33 },
      retry_policy: { max_attempts: 1 },
    });
    const { state, execution_summary: summary } = await scene.ended(run);
    assert.equal(state, 'FAILED');
    assert.match(summary.error_message, /template\.spec\.initContainers\.1\..* is "33(Mi)?", not "32(Mi)?"/);
  });

  test('a run goes on although its watch is cut and its version is no longer known', async () => {
    const run = await create('cancel');
    await scene.runs.untilState(run, 'RUNNING');
    assert.ok(server.cut() > 0);
    server.expire();
    await scene.cancel(run);
    await until(() => server.leftovers().length === 0, 'the job is removed');
  });

  test('an end that came while no watch was there is seen', async () => {
    const runs = await Promise.all(Array.from({ length: 5 }, () => create('success')));
    server.expire();
    for (const run of runs) assert.equal((await scene.ended(run)).state, 'COMPLETED');
  });

  test('runs wait while the API server is away', async () => {
    const waiting = await create('success');
    await scene.runs.untilState(waiting, 'ASSIGNED', 'RUNNING');
    await server.stop();
    const created = await create('exit-code');
    await server.resume();
    assert.equal((await scene.ended(waiting)).state, 'COMPLETED');
    assert.equal((await scene.ended(created)).execution_summary.exit_code, 7);
  });

  test('a launcher that is killed adopts its jobs at its next start', async () => {
    const run = await create('cancel');
    await scene.runs.untilState(run, 'RUNNING');
    const jobs = server.createdJobs;
    launcher.signal('SIGKILL');
    await launcher.exited;
    launcher = await scene.launcher();
    await scene.cancel(run);
    await until(() => server.leftovers().length === 0, 'the job is removed');
    assert.deepEqual(
      [await scene.timeline(run), server.createdJobs],
      [['1 SUBMITTED', '1 STARTED', '1 CANCELLED'], jobs],
    );
  });

  for (const [verb, resource] of [
    ['create', 'jobs'],
    ['delete', 'jobs'],
    ['watch', 'pods'],
    ['create', 'secrets'],
  ] as const) {
    test(`a launcher that may not ${verb} ${resource} does not start and names the permission in one line`, async () => {
      server.forbid(verb, resource);
      const refused = await scene.launchLauncher('forbidden');
      assert.deepEqual(await refused.exited, { code: 2, signal: null }, refused.output);
      server.allowAll();
      assert.match(refused.stderr, new RegExp(`^[^\\n]*may not ${verb} ${resource}[^\\n]*\\n$`));
    });
  }
});
