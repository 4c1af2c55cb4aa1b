import assert from 'node:assert/strict';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { startTestKubernetes } from '../../support/kubernetes/cluster.js';
import { LauncherScene } from '../../support/kubernetes/launcher-scene.js';
import { TestNamespace } from '../../support/kubernetes/test-namespace.js';
import { until, type TestProcess } from '../../support/service-process.js';
import { TcpProxy, type ProxyRoute } from '../../support/postgres/tcp-proxy.js';
import { skipFor } from '../../support/skip.js';

const IMAGE = 'local/busybox:1';
const ONCE = ['1 SUBMITTED', '1 STARTED', '1 COMPLETED'];

const forTests = await startTestKubernetes();
afterAll(async () => {
  if (forTests.skip === false) await forTests.cluster.stop();
});

describe('launchers and outages of a real Kubernetes', skipFor(forTests.skip), () => {
  let namespace: TestNamespace;
  let scene: LauncherScene;
  let proxy: TcpProxy;
  /** What the launcher reaches the API server through. */
  let route: ProxyRoute;
  let launcher: TestProcess;

  beforeAll(async () => {
    const { api } = forTests.cluster;
    namespace = await TestNamespace.create(forTests.cluster);
    proxy = await TcpProxy.start();
    route = await proxy.open({ port: Number(api.server.port) });
    const server = `https://127.0.0.1:${route.port}`;
    const kubeconfig = api.kubeconfig({ server, namespace: namespace.name });
    scene = await LauncherScene.start({ kubeconfig, namespace: namespace.name });
    launcher = await scene.launcher();
  });
  afterAll(async () => {
    await scene.end();
    await proxy.close();
    await namespace.remove();
  });
  afterEach(() => namespace.untilClean());

  /** A run that prints a line at its start and ends when a file is there, which a `sleep` decides. */
  const create = (seconds: number): Promise<string> => {
    const program = `echo begins; sleep ${seconds}; echo ends; echo '{"ok": true}' >"$SERVICE_OUTPUT_PATH"`;
    return scene.runs.create(IMAGE, { command: ['sh', '-c', program] });
  };

  /** The run has been executed once, whatever happened meanwhile, and nothing of its log is missing or twice. */
  const assertOnce = async (run: string): Promise<void> => {
    const { state, outputs } = await scene.ended(run);
    assert.deepEqual([state, outputs], ['COMPLETED', { ok: true }]);
    assert.deepEqual(await scene.timeline(run), ONCE);
    assert.deepEqual(await scene.logLines(run), ['begins', 'ends']);
    assert.equal(namespace.recorder.jobNames().filter((job) => job.includes(run)).length, 1);
  };

  test('a run survives the API server, which is killed and started again', async () => {
    const run = await create(6);
    await scene.runs.untilState(run, 'RUNNING');
    await forTests.cluster.kill('apiserver');
    await forTests.cluster.startPart('apiserver');
    await forTests.cluster.untilAnswers();
    await assertOnce(run);
  });

  test('a run that is created while the API server is away is executed when it is back', async () => {
    await forTests.cluster.kill('apiserver');
    const run = await create(0);
    await scene.runs.untilState(run, 'ASSIGNED', 'PENDING');
    await forTests.cluster.startPart('apiserver');
    await forTests.cluster.untilAnswers();
    await scene.ended(run);
    assert.equal((await scene.runs.get(run)).state, 'COMPLETED');
  });

  test('the end of a run is seen although its watch was cut, again and again', async () => {
    const run = await create(5);
    await scene.runs.untilState(run, 'RUNNING');
    for (let cuts = 0; cuts < 3; cuts += 1) {
      await until(async () => (await route.cut()) > 0, 'there is a connection to cut');
    }
    await assertOnce(run);
  });

  test('the end of a run is seen although its watch died without a word', async () => {
    const run = await create(3);
    await scene.runs.untilState(run, 'RUNNING');
    await route.misbehave({ blackhole: true });
    await namespace.untilPodEnded(run);
    await route.misbehave({});
    await assertOnce(run);
  });

  test('the end of a run is seen although the history of the API server is gone when the watch resumes', async () => {
    const { cluster } = forTests;
    const run = await create(3);
    await scene.runs.untilState(run, 'RUNNING');
    await route.misbehave({ blackhole: true });
    await namespace.untilPodEnded(run);
    await cluster.kill('apiserver');
    await cluster.compactHistory();
    await cluster.startPart('apiserver');
    await cluster.untilAnswers();
    await route.misbehave({});
    await assertOnce(run);
  });

  test('a launcher that is killed adopts its jobs at its next start: the run is executed once', async () => {
    const [running, ended] = await Promise.all([create(12), create(1)]);
    await scene.runs.untilState(running, 'RUNNING');
    await scene.runs.untilState(ended, 'RUNNING', 'COMPLETED');
    launcher.signal('SIGKILL');
    await launcher.exited;
    await namespace.untilPodEnded(ended);
    launcher = await scene.launcher();
    await Promise.all([assertOnce(running), assertOnce(ended)]);
  });

  test('a launcher that shuts down leaves its jobs to its next process', async () => {
    const run = await create(8);
    await scene.runs.untilState(run, 'RUNNING');
    launcher.signal('SIGTERM');
    assert.deepEqual(await launcher.exited, { code: 0, signal: null }, launcher.output);
    launcher = await scene.launcher();
    await assertOnce(run);
  });

  test('the jobs of a launcher that stays away are ended before another one starts the next attempt', async () => {
    const run = await scene.runs.create(IMAGE, {
      command: ['sh', '-c', 'case "$HOSTNAME" in *-1-*) while :; do sleep 0.1; done ;; esac'],
    });
    await scene.runs.untilState(run, 'RUNNING');
    launcher.signal('SIGKILL');
    await launcher.exited;
    const other = await scene.launcher('other');
    await scene.ended(run);
    assert.deepEqual(await scene.timeline(run), [
      '1 SUBMITTED',
      '1 STARTED',
      '1 RECLAIMED',
      '2 SUBMITTED',
      '2 STARTED',
      '2 COMPLETED',
    ]);
    namespace.assertOneAtATime(run);
    other.signal('SIGTERM');
    assert.deepEqual(await other.exited, { code: 0, signal: null }, other.output);
    launcher = await scene.launcher();
  });

  test('two launchers share the runs, and each run is executed once', async () => {
    const second = await scene.launcher('second');
    const runs = await Promise.all(Array.from({ length: 12 }, () => create(1)));
    for (const run of runs) await assertOnce(run);
    const workers = await Promise.all(
      runs.map(async (run) => (await scene.runs.get(run)).execution_summary.worker_id),
    );
    assert.deepEqual(new Set(workers), new Set(['launcher', 'second']));
    second.signal('SIGTERM');
    assert.deepEqual(await second.exited, { code: 0, signal: null }, second.output);
  });
});
