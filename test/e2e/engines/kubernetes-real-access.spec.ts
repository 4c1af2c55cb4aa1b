import assert from 'node:assert/strict';
import { afterAll, beforeAll, beforeEach, describe, test } from 'vitest';
import { startTestKubernetes } from '../../support/kubernetes/cluster.js';
import { LauncherScene } from '../../support/kubernetes/launcher-scene.js';
import { LimitedAccount } from '../../support/kubernetes/limited-account.js';
import { recordAnswers } from '../../support/kubernetes/record-answers.js';
import { writeRecording } from '../../support/kubernetes/recording.js';
import { TestNamespace } from '../../support/kubernetes/test-namespace.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestKubernetes();
afterAll(async () => {
  if (forTests.skip === false) await forTests.cluster.stop();
});

describe('permissions of a launcher on a real Kubernetes', skipFor(forTests.skip), () => {
  let namespace: TestNamespace;
  let scene: LauncherScene;
  let account: LimitedAccount;

  beforeAll(async () => {
    namespace = await TestNamespace.create(forTests.cluster);
    account = await LimitedAccount.create(namespace);
    scene = await LauncherScene.start({ kubeconfig: account.kubeconfig, namespace: namespace.name });
  });
  afterAll(async () => {
    await scene.end();
    await account.remove();
    await namespace.remove();
  });
  beforeEach(() => account.allowAll());

  const assertRefused = async (message: RegExp): Promise<void> => {
    const refused = await scene.launchLauncher('refused');
    assert.deepEqual(await refused.exited, { code: 2, signal: null }, refused.output);
    assert.match(refused.stderr, /^[^\n]+\n$/);
    assert.match(refused.stderr, message);
  };

  test('the permissions of docker/kubernetes are enough for success, failure and cancel', async () => {
    const launcher = await scene.launcher();
    const create = (script: string) =>
      scene.runs.create('local/busybox:1', { command: ['sh', '-c', script], inputs: { n: 1 } });
    const [good, bad, endless] = await Promise.all(['echo done', 'exit 3', 'sleep 600'].map(create));
    assert.equal((await scene.ended(good ?? '')).state, 'COMPLETED');
    assert.equal((await scene.ended(bad ?? '')).execution_summary.exit_code, 3);
    await scene.runs.untilState(endless ?? '', 'RUNNING');
    await scene.cancel(endless ?? '');
    await namespace.untilClean();
    assert.doesNotMatch(launcher.output, /forbidden/i);
  });

  for (const [verb, resource] of [
    ['create', 'jobs'],
    ['watch', 'pods'],
    ['get', 'pods/log'],
    ['delete', 'secrets'],
  ] as const) {
    test(`without the permission to ${verb} ${resource} it does not start, and one line says so`, async () => {
      await account.forbid('Role', verb, resource);
      await assertRefused(new RegExp(`may not ${verb} ${resource} in the namespace`));
    });
  }

  test('without the permission to list nodes it does not start, and one line says what to set instead', async () => {
    await account.forbid('ClusterRole', 'list', 'nodes');
    await assertRefused(/may not list nodes in the cluster: set SERVICE_WORKER_CPU/);
  });

  test('the answers that the fake API server gives are those of the cluster', async () => {
    const answers = await recordAnswers(namespace);
    assert.deepEqual(
      [answers.forbidden, answers.notFound, answers.alreadyExists, answers.logTooEarly].map(
        ({ status }) => status,
      ),
      [403, 404, 409, 400],
    );
    assert.deepEqual([answers.expired.body.type, answers.expired.body.object.code], ['ERROR', 410]);
    if (process.env['LONGSHORE_RECORD'] === '1') await writeRecording('answers', answers);
  });
});
