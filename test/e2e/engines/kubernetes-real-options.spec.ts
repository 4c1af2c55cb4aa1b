import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { startTestKubernetes } from '../../support/kubernetes/cluster.js';
import { LauncherScene } from '../../support/kubernetes/launcher-scene.js';
import {
  OPTION_SCENARIOS,
  OPTION_VOLUMES,
  storeOptionSecrets,
} from '../../support/kubernetes/option-scenarios.js';
import { TestNamespace } from '../../support/kubernetes/test-namespace.js';
import { makeDataDir, until } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

/* oxlint-disable typescript/no-explicit-any -- objects of an API server are of any shape */

const IMAGE = 'local/busybox:1';
const NODE = '/api/v1/nodes/node1';
const MERGE = 'application/merge-patch+json';

const isFailed = ({ type }: { readonly type: string }): boolean => type === 'FAILED';

const forTests = await startTestKubernetes();
afterAll(async () => {
  if (forTests.skip === false) await forTests.cluster.stop();
});

describe('options of runs on a real Kubernetes', skipFor(forTests.skip), () => {
  let namespace: TestNamespace;
  let scene: LauncherScene;
  /** Folders of the volumes. */
  let base: string;

  beforeAll(async () => {
    base = await makeDataDir();
    for (const name of ['data', 'results', 'gone']) mkdirSync(join(base, name));
    // Programs of every user may read and write: what refuses them is not the mode.
    for (const name of ['data', 'results']) chmodSync(join(base, name), 0o777);
    writeFileSync(join(base, 'data', 'set'), 'content\n', { mode: 0o666 });
    symlinkSync('/etc', join(base, 'results', 'link'));
    namespace = await TestNamespace.create(forTests.cluster);
    for (const name of ['data', 'results', 'gone']) await namespace.addClaim(name, join(base, name));
    await namespace.addClaim('away', join(base, 'away'), 'Directory');
    const kubeconfig = forTests.cluster.api.kubeconfig({ namespace: namespace.name });
    const volumes = `${OPTION_VOLUMES},away=pvc:away`;
    scene = await LauncherScene.start({ kubeconfig, namespace: namespace.name, volumes });
    await storeOptionSecrets(scene);
    await scene.launcher();
    await forTests.cluster.api.must('DELETE', `${namespace.claimsPath}/gone`);
  });
  afterAll(async () => {
    await scene.end();
    await namespace.remove();
  });
  afterEach(() => namespace.untilClean());

  /** A run that takes so many seconds to save its work when it is told to end. */
  const createSaving = (seconds: number, stop_grace_s: number): Promise<string> => {
    const program = `trap "echo told; sleep ${seconds}; echo saved; exit 0" TERM; while :; do sleep 0.1; done`;
    return scene.runs.create(IMAGE, { command: ['sh', '-c', program], stop_grace_s });
  };

  for (const { name, promise, body, judge, afterwards, hasTemplate } of OPTION_SCENARIOS) {
    test(promise, async () => {
      const { image, ...rest } = body;
      const run = await scene.runs.create(String(image), rest);
      await judge(scene, run);
      await namespace.untilClean();
      await afterwards?.({ cluster: forTests.cluster, namespace, scene }, run);
      await namespace.record(name, run, hasTemplate);
    });
  }

  test('folders that runs had created in a volume stay there, and nothing was created behind a link', () => {
    const [run = ''] = readdirSync(join(base, 'results', 'runs'));
    assert.match(run, /^[0-9a-f-]{36}$/);
    const folder = statSync(join(base, 'results', 'runs', run));
    assert.deepEqual([folder.mode & 0o7777, folder.uid, folder.gid], [0o755, 1000, 2000]);
    assert.equal(readFileSync(join(base, 'results', 'runs', run, 'result'), 'utf8'), 'result\n');
    assert.equal(existsSync('/etc/new'), false);
  });

  test('the Job and its pod have the name and the labels of the run', async () => {
    const labels = { team: 'vision', 'org/stage': 'a', note: 'two words' };
    const body = { name: 'nightly run', labels, command: ['sleep', '600'], stop_grace_s: 1 };
    const run = await scene.runs.create(IMAGE, body);
    await scene.runs.untilState(run, 'RUNNING');
    const pod = await namespace.podOf(run);
    const job = await forTests.cluster.api.must(
      'GET',
      `${namespace.jobsPath}/${pod.metadata.ownerReferences[0].name}`,
    );
    for (const { metadata } of [job, pod]) {
      assert.equal(metadata.annotations['longshore.name'], 'nightly run');
      assert.deepEqual(JSON.parse(metadata.annotations['longshore.labels']), labels);
    }
    const selector = encodeURIComponent('longshore.label/team=vision');
    const { items } = await forTests.cluster.api.must(
      'GET',
      `${namespace.podsPath}?labelSelector=${selector}`,
    );
    assert.deepEqual(
      items.map(({ metadata }: any) => metadata.name),
      [pod.metadata.name],
    );
    await scene.cancel(run);
  });

  test('a cancelled program has the time that its run asked for: more than the default, or less', async () => {
    // The default is 10 seconds.
    const runs = [await createSaving(13, 30), await createSaving(7, 2)];
    const logs = await Promise.all(
      runs.map(async (run) => {
        await scene.runs.untilState(run, 'RUNNING');
        const pod = await namespace.podOf(run);
        await scene.cancel(run);
        return () => namespace.recorder.logOf(pod.metadata.name, 'run');
      }),
    );
    await namespace.untilClean();
    const [long = '', short = ''] = logs.map((log) => log());
    assert.match(long, /told\n[^\n]* saved\n/);
    assert.match(short, /told\n/);
    assert.doesNotMatch(short, /saved/);
  });

  test('a run gets GPUs of the product that it asked for from nodes that have them', async () => {
    const { api } = forTests.cluster;
    const label = async (memory: string | null, product: string | null, gpus: string | null) => {
      const labels = { 'nvidia.com/gpu.memory': memory, 'nvidia.com/gpu.product': product };
      await api.must('PATCH', NODE, { metadata: { labels } }, MERGE);
      const capacity = { 'nvidia.com/gpu': gpus };
      await api.must('PATCH', `${NODE}/status`, { status: { capacity } }, MERGE);
    };
    const allocatable = async () => (await api.must('GET', NODE)).status.allocatable['nvidia.com/gpu'];
    await label('16000', 'Tesla-T4', '2');
    try {
      await until(async () => (await allocatable()) === '2', 'the node has GPUs');
      const launcher = await scene.launcher('with-gpus', { SERVICE_WORKER_VOLUMES: '' });
      const constraints = { gpus: 2, vram_mb: 16_000, gpu_selector: ['tesla-t4'] };
      const run = await scene.runs.create(IMAGE, { command: ['sleep', '600'], stop_grace_s: 1, constraints });
      await scene.runs.untilState(run, 'RUNNING');
      const { spec } = await namespace.podOf(run);
      assert.equal(spec.initContainers[1].resources.limits['nvidia.com/gpu'], '2');
      assert.equal(spec.nodeSelector['nvidia.com/gpu.product'], 'Tesla-T4');
      assert.equal(spec.nodeName, 'node1');
      await scene.cancel(run);
      await namespace.untilClean();
      launcher.signal('SIGTERM');
      assert.deepEqual(await launcher.exited, { code: 0, signal: null }, launcher.output);
    } finally {
      await label(null, null, null);
    }
  });

  test('volumes that cannot be had fail attempts as infrastructure, and a link as an error, with the name of the volume', async () => {
    const mounts = [
      { volume: 'gone', path: '/mount' },
      { volume: 'away', path: '/mount' },
      { volume: 'results', path: '/mount', sub_path: 'link', read_only: true },
    ];
    const runs = await Promise.all(
      mounts.map((mount) => scene.runs.create(IMAGE, { command: ['true'], mounts: [mount] })),
    );
    const payloads = await Promise.all(
      runs.map(async (run) => {
        const { events } = await scene.runs.until(run, 'has failed', (seen) => seen.events.some(isFailed));
        const { cause, error_message: message } = events.find(isFailed).payload;
        return [cause, message];
      }),
    );
    assert.deepEqual(payloads, [
      ['infrastructure', "The volume 'gone' is missing: Kubernetes does not have its claim"],
      ['infrastructure', "The volume 'away' cannot be mounted on the node of the pod"],
      [
        'error',
        "A part of the sub_path of the volume 'results' is a link or no folder, or cannot be created",
      ],
    ]);
    // What is infrastructure is tried again.
    await Promise.all(runs.slice(0, 2).map((run) => scene.cancel(run)));
  });
});
