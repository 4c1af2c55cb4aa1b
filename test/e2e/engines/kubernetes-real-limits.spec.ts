import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { startTestKubernetes } from '../../support/kubernetes/cluster.js';
import { LauncherScene } from '../../support/kubernetes/launcher-scene.js';
import { script } from '../../support/kubernetes/scenarios.js';
import { TestNamespace } from '../../support/kubernetes/test-namespace.js';
import { makeDataDir } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const IMAGE = 'local/busybox:1';

/** The longest words, each of which is twice as long in a Job. */
const dollars = (count: number): string[] => Array.from({ length: count }, () => '$'.repeat(4096));

const forTests = await startTestKubernetes();
afterAll(async () => {
  if (forTests.skip === false) await forTests.cluster.stop();
});

describe('limits of runs on a real Kubernetes', skipFor(forTests.skip), () => {
  let namespace: TestNamespace;
  let scene: LauncherScene;
  /** Folder of the volume. */
  let results: string;

  beforeAll(async () => {
    results = join(await makeDataDir(), 'results');
    mkdirSync(results);
    chmodSync(results, 0o777);
    namespace = await TestNamespace.create(forTests.cluster);
    await namespace.addClaim('results', results);
    const kubeconfig = forTests.cluster.api.kubeconfig({ namespace: namespace.name });
    scene = await LauncherScene.start({
      kubeconfig,
      namespace: namespace.name,
      volumes: 'results=pvc:results',
    });
    const body = { kind: 'opaque', value: 'value of the secret' };
    const { status, text } = await scene.send('PUT', '/secrets/long', { body });
    assert.ok(status === 200 || status === 201, text);
    await scene.launcher();
  });
  afterAll(async () => {
    await scene.end();
    await namespace.remove();
  });
  afterEach(() => namespace.untilClean());

  const endOf = async (body: Readonly<Record<string, unknown>>, image = IMAGE) => {
    const run = await scene.runs.create(image, { retry_policy: { max_attempts: 1 }, ...body });
    const { state, execution_summary: summary } = await scene.ended(run);
    return { run, state, cause: summary.cause, message: summary.error_message };
  };

  test('a run whose job the cluster could not store fails with the size and its limit', async () => {
    const args = dollars(100);
    const { state, cause, message } = await endOf({ command: ['true', ...args.slice(1)], args });
    assert.deepEqual([state, cause], ['FAILED', 'error']);
    assert.match(
      message,
      /Kubernetes job of 163\d{4} bytes.*; the limit is 1048576 bytes: pass large values as inputs or files/,
    );
  });

  test('the largest job that is taken ends, also when its program fills the message of its end', async () => {
    const fill = 'head -c 1000000 /dev/zero | tr "\\0" "\\1" >/dev/termination-log';
    const { state, message } = await endOf({
      command: ['sh', '-c', fill, 'sh', ...dollars(25)],
      args: dollars(100),
    });
    assert.deepEqual([state, message], ['COMPLETED', undefined]);
  });

  test('a run is refused whose names of variables the cluster could not note', async () => {
    const names = Array.from({ length: 100 }, (_, index) => `N${index}_${'x'.repeat(5_400)}`);
    const secrets = Object.fromEntries(names.map((name) => [name, 'long']));
    const { state, cause, message } = await endOf({ command: ['true'], secrets });
    assert.deepEqual([state, cause], ['FAILED', 'error']);
    assert.match(message, /the limit is 1048576 bytes/);
  });

  test('an output file of terabytes without content is refused by its size', async () => {
    const { state, cause, message } = await endOf(script('truncate -s 8000000000000 "$SERVICE_OUTPUT_PATH"'));
    assert.deepEqual([state, cause], ['FAILED', 'error']);
    assert.match(message, /it has 8000000000000 bytes; the limit on Kubernetes is 1048576 bytes/);
  });

  test('a secret is in a variable with a name of 300 letters', async () => {
    const name = 'L'.repeat(300);
    const { run, state } = await endOf(
      script(`printf %s "$${name}" | wc -c`, { secrets: { [name]: 'long' } }),
    );
    assert.deepEqual([state, await scene.logLines(run)], ['COMPLETED', ['19']]);
  });

  test('an empty folder of root that was in the volume before stays as it is, and a new one is of the run', async () => {
    const old = join(results, 'old');
    mkdirSync(old, { mode: 0o750 });
    utimesSync(old, 1_000_000_000, 1_000_000_000);
    const { state } = await endOf({
      command: ['true'],
      mounts: [
        { volume: 'results', path: '/old', sub_path: 'old' },
        { volume: 'results', path: '/new', sub_path: 'new' },
      ],
    });
    const modes = ['old', 'new'].map((name) => (statSync(join(results, name)).mode & 0o7777).toString(8));
    assert.deepEqual([state, ...modes], ['COMPLETED', '750', '1777']);
  });

  test('a run with mounts of an image that may have none fails, and one without them runs', async () => {
    const launcher = await scene.launcher('strict', {
      SERVICE_WORKER_TAGS: 'strict',
      SERVICE_WORKER_KUBERNETES_MOUNT_IMAGES: 'docker.io/acme/*',
    });
    const selector = ['strict'];
    const mounts = [{ scratch_mb: 1, path: '/scratch' }];
    const refused = await endOf({ command: ['true'], selector, mounts });
    assert.deepEqual([refused.state, refused.cause], ['FAILED', 'error']);
    assert.match(refused.message, /SERVICE_WORKER_KUBERNETES_MOUNT_IMAGES/);
    assert.equal((await endOf({ command: ['true'], selector })).state, 'COMPLETED');
    launcher.signal('SIGTERM');
    assert.deepEqual(await launcher.exited, { code: 0, signal: null }, launcher.output);
  });

  test('old versions of the node are named at the start, and end a launcher that is to refuse them', async () => {
    const refused = await scene.launchLauncher('refusing', { SERVICE_WORKER_OLD_ENGINE: 'refuse' });
    assert.deepEqual(await refused.exited, { code: 2, signal: null }, refused.output);
    assert.match(
      refused.stderr,
      /^SERVICE_WORKER_OLD_ENGINE=refuse: [^\n]*kubelet v1\.20\.2[^\n]* of node1[^\n]*\n$/,
    );
  });
});
