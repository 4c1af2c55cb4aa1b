import assert from 'node:assert/strict';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { startTestKubernetes } from '../../support/kubernetes/cluster.js';
import { LauncherScene } from '../../support/kubernetes/launcher-scene.js';
import { SCENARIOS } from '../../support/kubernetes/scenarios.js';
import { TestNamespace } from '../../support/kubernetes/test-namespace.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestKubernetes();
afterAll(async () => {
  if (forTests.skip === false) await forTests.cluster.stop();
});

describe('runs on a real Kubernetes', skipFor(forTests.skip), () => {
  let namespace: TestNamespace;
  let scene: LauncherScene;

  beforeAll(async () => {
    namespace = await TestNamespace.create(forTests.cluster);
    const kubeconfig = forTests.cluster.api.kubeconfig({ namespace: namespace.name });
    scene = await LauncherScene.start({ kubeconfig, namespace: namespace.name });
    await scene.launcher();
  });
  afterAll(async () => {
    await scene.end();
    await namespace.remove();
  });
  // No test leaves a job, a pod or a secret.
  afterEach(() => namespace.untilClean());

  for (const { name, promise, body, interfere, judge } of SCENARIOS) {
    test(promise, async () => {
      const { cluster } = forTests;
      const { image, ...rest } = body;
      const run = await scene.runs.create(String(image), rest);
      await interfere?.({ cluster, namespace, scene }, run);
      await judge(scene, run);
      await namespace.untilClean();
      await namespace.record(name, run);
    });
  }

  test('an image keeps its entrypoint', async () => {
    const image = await forTests.cluster.buildExample('word-count');
    const run = await scene.runs.create(image, { inputs: { text: 'to be or not to be' } });
    const { state, outputs } = await scene.ended(run);
    assert.deepEqual([state, outputs.words], ['COMPLETED', 6]);
  });

  test('a cancelled program gets SIGTERM and the time to end by itself', async () => {
    const program = 'trap "echo told; sleep 1; echo ended; exit 0" TERM; while :; do sleep 0.1; done';
    const run = await scene.runs.create('local/busybox:1', { command: ['sh', '-c', program] });
    await scene.runs.untilState(run, 'RUNNING');
    const pod = await namespace.podOf(run);
    await scene.cancel(run);
    await namespace.untilClean();
    // The cluster does not keep the exit code of a container whose pod is deleted.
    assert.match(namespace.recorder.logOf(pod.metadata.name, 'run'), /told\n[^\n]* ended\n/);
  });

  test('fifty runs at once all complete, each executed once', async () => {
    const program = `echo '{"ok": true}' >"$SERVICE_OUTPUT_PATH"`;
    const body = { command: ['sh', '-c', program] };
    const runs = await Promise.all(
      Array.from({ length: 50 }, () => scene.runs.create('local/busybox:1', body)),
    );
    for (const run of runs) {
      assert.equal((await scene.ended(run)).state, 'COMPLETED');
      assert.deepEqual(await scene.timeline(run), ['1 SUBMITTED', '1 STARTED', '1 COMPLETED']);
    }
    assert.equal(
      namespace.recorder.jobNames().filter((job) => runs.some((run) => job.includes(run))).length,
      50,
    );
  });
});
