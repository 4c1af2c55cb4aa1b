import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { pack } from 'tar-stream';
import { startTestKubernetes } from '../../support/kubernetes/cluster.js';
import { LauncherScene } from '../../support/kubernetes/launcher-scene.js';
import { LimitedAccount } from '../../support/kubernetes/limited-account.js';
import { TestNamespace } from '../../support/kubernetes/test-namespace.js';
import { makeDataDir, until } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

/* oxlint-disable typescript/no-explicit-any -- answers of any shape */

const IMAGE = 'local/busybox:1';
/** Where containers reach this machine. */
const HOST = '10.88.0.1';

async function tarOf(entries: Readonly<Record<string, string>>): Promise<Buffer> {
  const tar = pack();
  for (const [name, content] of Object.entries(entries)) tar.entry({ name, mode: 0o755 }, content);
  tar.finalize();
  return buffer(tar);
}

const forTests = await startTestKubernetes();
afterAll(async () => {
  if (forTests.skip === false) await forTests.cluster.stop();
});

describe('files of runs on a real Kubernetes', skipFor(forTests.skip), () => {
  let namespace: TestNamespace;
  let account: LimitedAccount;
  let scene: LauncherScene;
  let env: Record<string, string>;

  beforeAll(async () => {
    const filesImage = await forTests.cluster.buildWorker();
    namespace = await TestNamespace.create(forTests.cluster);
    account = await LimitedAccount.create(namespace);
    const serviceEnv = { SERVICE_HOST: '0.0.0.0', SERVICE_FILES_URL: `file:${await makeDataDir()}` };
    scene = await LauncherScene.start({
      kubeconfig: account.kubeconfig,
      namespace: namespace.name,
      serviceEnv,
    });
    env = {
      SERVICE_URL: `http://${HOST}:${new URL(scene.service.url).port}`,
      SERVICE_WORKER_KUBERNETES_FILES_IMAGE: filesImage,
    };
    await scene.launcher('files', env);
  });
  afterAll(async () => {
    await scene.end();
    await account.remove();
    await namespace.remove();
  });
  afterEach(() => namespace.untilClean());

  async function upload(name: string, content: Buffer): Promise<string> {
    const sha256 = createHash('sha256').update(content).digest('hex');
    const made = await scene.send('POST', '/files', { body: { name, bytes: content.length, sha256 } });
    // The same content was stored before.
    if (made.status === 200) return made.body.id;
    const { url, headers } = made.body.upload;
    const sent = await fetch(url, { method: 'PUT', headers, body: new Uint8Array(content) });
    assert.ok(sent.ok, await sent.text());
    return made.body.id;
  }

  function execute(script: string, artifacts: object, more: object = {}): Promise<string> {
    return scene.runs.create(IMAGE, { command: ['sh', '-c', script], artifacts, ...more });
  }

  async function left(run: string): Promise<Record<string, string>> {
    const { body } = await scene.send('GET', `/runs/${run}/artifacts`);
    const contents = body.map(async ({ name, state }: any) => {
      if (state !== 'stored') return [name, state];
      const { body: link } = await scene.send('GET', `/runs/${run}/artifacts/${name}?redirect=false`);
      return [name, await (await fetch(link.url)).text()];
    });
    return Object.fromEntries(await Promise.all(contents));
  }

  const LEAVE =
    'echo model >/out/model; mkdir -p /out/plots/deep; echo p >/out/plots/deep/a.png; echo q >/out/plots/b.png; ' +
    'ln -s /etc/passwd /out/plots/link; echo "{\\"a\\":1}" >$SERVICE_OUTPUT_PATH';

  for (const [who, user, owner] of [
    ['the user that the run names', '1000:2000', '755 1000 2000'],
    ['every user, where it names none', null, '777 10001 0'],
  ] as const) {
    test(`a run finds its files, and leaves others in folders of ${who}`, async () => {
      const csv = await upload('train.csv', Buffer.from('a,b\n'));
      const app = await upload('app.tar', await tarOf({ 'src/run': '#!/bin/sh\necho ran\n' }));
      const script =
        `cat /data/ü/train.csv; /app/src/run; stat -c "%a" /data/ü/train.csv /app/src/run; ` +
        `stat -c "%a %u %g" /app/src /out /out/plots; touch /app/new; cat /scratch/in; umask 077; ${LEAVE}; echo s >/scratch/deep/s`;
      const run = await execute(
        script,
        {
          in: {
            '/data/ü/train.csv': { file: csv },
            '/app': { file: app, unpack: true },
            '/scratch/in': { file: csv },
          },
          out: {
            model: { path: '/out/model' },
            plots: { path: '/out/plots/**' },
            scratch: { path: '/scratch/deep/s' },
            none: { path: '/out/none', required: false },
          },
        },
        { mounts: [{ path: '/scratch', scratch_mb: 1 }], ...(user !== null && { user }) },
      );
      const ended = await scene.ended(run);
      const lines = await scene.logLines(run);
      assert.equal(ended.state, 'COMPLETED', JSON.stringify([ended.execution_summary, lines]));
      assert.deepEqual(ended.outputs, { a: 1 });
      const own = lines.filter((line) => line.startsWith('[worker] '));
      assert.deepEqual(
        lines.filter((line) => !own.includes(line)),
        ['a,b', 'ran', '444', '555', owner, owner, owner, 'a,b'],
      );
      assert.equal(own.filter((line) => /fetched \/\S+: \d+ bytes in/.test(line)).length, 3, own.join('\n'));
      assert.equal(own.filter((line) => /stored \S+ .*: \d+ bytes in/.test(line)).length, 4, own.join('\n'));
      assert.doesNotMatch(lines.join('\n'), /signature|https?:/);
      assert.deepEqual(await left(run), {
        model: 'model\n',
        'plots/b.png': 'q\n',
        'plots/deep/a.png': 'p\n',
        scratch: 's\n',
      });
      const { text } = await scene.send('GET', `/runs/${run}/events`);
      assert.doesNotMatch(text, /signature=/);
    });
  }

  test('after a failure of the program, what is always kept is stored, and its exit code is reported', async () => {
    const run = await execute('echo w >/out/why; echo m >/out/model; exit 7', {
      out: { why: { path: '/out/why', when: 'always' }, model: { path: '/out/model' } },
    });
    const { state, execution_summary: summary } = await scene.ended(run);
    assert.deepEqual([state, summary.exit_code, summary.error_cause ?? 'exit'], ['FAILED', 7, 'exit']);
    assert.deepEqual(await left(run), { why: 'w\n' });
  });

  test('a run whose file cannot be unpacked, or that does not leave what it must, fails with the path', async () => {
    const noTar = await upload('x.tar', Buffer.from('x'));
    const runs = [
      await execute('true', { in: { '/data/x': { file: noTar, unpack: true } } }),
      await execute('true', { out: { model: { path: '/out/model' } } }),
      await execute('true', { out: { model: { path: '/model' } } }),
    ];
    const messages = [];
    for (const run of runs) {
      const { state, execution_summary: summary, error_message: message } = await scene.ended(run);
      assert.equal(state, 'FAILED');
      messages.push(message ?? summary.error_message);
    }
    assert.match(messages[0], /^The file for '\/data\/x' cannot be unpacked: /);
    assert.equal(messages[1], "The run has not left '/out/model' (model)");
    assert.match(messages[2], /must be in a folder below \//);
  });

  test('a launcher that is replaced goes on with a program that runs, and with one that has ended meanwhile', async () => {
    const tagged = { ...env, SERVICE_WORKER_TAGS: 'replaced' };
    const first = await scene.launcher('replaced', tagged);
    const out = { model: { path: '/out/model' } };
    const runs = await Promise.all(
      ['sleep 2; echo a >/out/model', 'sleep 30; echo b >/out/model'].map((script) =>
        execute(script, { out }, { selector: ['replaced'] }),
      ),
    );
    for (const run of runs) await scene.runs.untilState(run, 'RUNNING');
    first.signal('SIGKILL');
    await first.exited;
    const [ended = ''] = runs;
    await until(async () => {
      const { status } = await namespace.podOf(ended);
      const state = status.containerStatuses.find(({ name }: any) => name === 'run')?.state;
      return state?.terminated !== undefined;
    }, 'the first program has ended');
    await scene.launcher('replaced', tagged);
    for (const run of runs) {
      assert.equal((await scene.ended(run)).state, 'COMPLETED');
      assert.equal((await scene.timeline(run)).filter((entry) => entry.endsWith('STARTED')).length, 1);
    }
    assert.deepEqual(await Promise.all(runs.map(left)), [{ model: 'a\n' }, { model: 'b\n' }]);
  });
});
