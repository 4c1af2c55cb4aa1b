import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { makeImageFolder } from '../../support/images/image-folders.js';
import { until } from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';
import { skipWithoutSlurm } from '../../support/workers/slurm-cluster.js';
import { SlurmLaunchers } from '../../support/workers/slurm-launchers.js';

const skip = skipWithoutSlurm();

describe('files of runs that a launcher fetches and stores, on a real Slurm', skipFor(skip), () => {
  let scene: SlurmLaunchers;
  let store: string;
  let images: string;
  let gates: string;

  beforeAll(async () => {
    store = mkdtempSync(join(tmpdir(), 'e2e-slurm-files-'));
    scene = await SlurmLaunchers.start(randomBytes(32).toString('base64'), {
      SERVICE_FILES_URL: `file:${store}`,
      SERVICE_FILES_MIN_FREE_MB: '0',
    });
    images = join(scene.cluster.folder, 'images');
    gates = join(scene.cluster.folder, 'gates');
    mkdirSync(gates);
    makeImageFolder(images, 'tool', '');
    mkdirSync(join(images, 'tool', 'app', 'lib'), { recursive: true });
    writeFileSync(join(images, 'tool', 'app', 'lib', 'own'), 'of-the-image\n');
    writeFileSync(join(images, 'tool', 'app', 'run.sh'), 'replaced');
  });
  afterEach(() => scene.clear());
  afterAll(async () => {
    await scene?.stop();
    rmSync(store, { recursive: true, force: true });
  });

  function launch(id: string) {
    return scene.launch(id, {
      SERVICE_WORKER_SLURM_CONTAINER: 'runc',
      SERVICE_WORKER_SLURM_IMAGES: images,
      SERVICE_WORKER_SLURM_SCRATCH: join(scene.cluster.folder, 'gates'),
      SERVICE_WORKER_VOLUMES: `gates=${gates}`,
    });
  }

  function create(script: string, artifacts: object, more: object = {}): Promise<string> {
    return scene.runs.create('tool', { command: ['/bin/sh', '-euc', script], artifacts, ...more });
  }

  async function upload(name: string, content: Buffer): Promise<string> {
    const sha256 = createHash('sha256').update(content).digest('hex');
    const made = await scene.send('POST', '/files', { body: { name, bytes: content.length, sha256 } });
    assert.ok(made.status < 300, made.text);
    // Absent: the same content was sent before.
    const { url, headers } = made.body.upload ?? {};
    if (url !== undefined)
      assert.ok((await fetch(url, { method: 'PUT', headers, body: new Uint8Array(content) })).ok);
    return made.body.id;
  }

  async function contentOf(id: string, name: string): Promise<string> {
    const { body } = await scene.send('GET', `/runs/${id}/artifacts/${name}?redirect=false`);
    return (await fetch(body.url)).text();
  }

  async function namesOf(id: string): Promise<string[]> {
    const { body } = await scene.send('GET', `/runs/${id}/artifacts`);
    return body.map(({ name, state }: Record<string, string>) => `${name} ${state}`).toSorted();
  }

  async function completed(id: string): Promise<void> {
    const run = await scene.runs.untilState(id, 'COMPLETED', 'FAILED');
    assert.equal(run.state, 'COMPLETED', JSON.stringify([run.execution_summary, await logOf(id)]));
  }

  /** The lines of the log, without times. */
  async function logOf(id: string): Promise<string[]> {
    const { text } = await scene.send('GET', `/runs/${id}/logs`);
    const lines = text.split('\n').filter((line) => line !== '');
    return lines.map((line) => JSON.parse(line).text.replace(/ in \d+\.\d s$/, ''));
  }

  async function sources(): Promise<object> {
    const archive = pack();
    archive.entry({ name: 'run.sh', mode: 0o755 }, '#!/bin/sh\necho from-archive\n');
    archive.entry({ name: 'link', type: 'symlink', linkname: 'run.sh' });
    archive.finalize();
    return {
      '/data/in.txt': { file: await upload('in.txt', Buffer.from('content\n')) },
      '/app': { file: await upload('app.tar', await buffer(archive)), unpack: true },
    };
  }

  test('come in as a file and as an unpacked folder, go out by path and pattern, and into the next run', async () => {
    await launch('launcher');
    const script = `cat "$SERVICE_FILES_ROOT/data/in.txt" >/out/copy; /app/link >>/out/copy; cat /app/lib/own >>/out/copy
      busybox stat -c '%a %u' /data/in.txt /app /out >>/out/copy
      ! echo x 2>/dev/null >/data/in.txt; echo x >/app/new; busybox mkdir -p /out/plots/deep
      echo a >/out/plots/deep/a.png; echo b >/out/plots/b.svg; echo c >/scratch/c
      busybox head -c 2097152 /dev/zero | busybox tr '\\0' x >/tmp/x; { echo -n '{"x": "'; cat /tmp/x; echo '"}'; } >$SERVICE_OUTPUT_PATH`;
    const out = {
      copy: { path: '/out/copy' },
      plots: { path: '/out/plots/**/*.png' },
      scratch: { path: '/scratch/c' },
    };
    const mounts = [{ scratch_mb: 1, path: '/scratch' }];
    const first = await create(script, { in: await sources(), out }, { mounts });
    await completed(first);
    assert.deepEqual(await namesOf(first), [
      'copy stored',
      'outputs.json stored',
      'plots/deep/a.png stored',
      'scratch stored',
    ]);
    const copied = 'content\nfrom-archive\nof-the-image\n444 0\n777 0\n777 0\n';
    assert.equal(await contentOf(first, 'copy'), copied);
    const { outputs } = await scene.runs.get(first);
    assert.deepEqual(outputs, { $artifact: 'outputs.json' });
    const log = await logOf(first);
    for (const line of [
      'fetched /data/in.txt: 8 bytes',
      'fetched /app: 2560 bytes',
      'stored copy (/out/copy): 52 bytes',
    ])
      assert.ok(log.includes(`[worker] ${line}`), log.join('\n'));
    const second = await create('cat /in/copy /in/plots/deep/a.png', {
      in: {
        '/in/copy': { run: first, name: 'copy' },
        '/in/plots': { run: first, name: 'plots' },
      },
    });
    await completed(second);
    assert.deepEqual((await logOf(second)).slice(2), [...copied.trimEnd().split('\n'), 'a']);
  });

  test('fail a run that leaves less than it must, which keeps what is given always; links are not followed', async () => {
    await launch('launcher');
    const out = {
      model: { path: '/out/model' },
      link: { path: '/out/link', required: false },
      behind: { path: '/out/etc/passwd', required: false },
      all: { path: '/out/**', when: 'always' },
    };
    const leave = 'echo kept >/out/kept; busybox ln -s /etc/passwd /out/link; busybox ln -s /etc /out/etc';
    const [missing, failing] = [
      await create(leave, { out }),
      await create(`echo late >/out/model; ${leave}; exit 7`, { out }),
    ];
    const { execution_summary: lacks } = await scene.runs.untilState(missing, 'FAILED', 'COMPLETED');
    assert.equal(lacks.cause, 'error');
    assert.match(lacks.error_message, /has not left '\/out\/model' \(model\)/);
    assert.deepEqual(
      (await namesOf(missing)).filter((name) => name.startsWith('all/')),
      ['all/kept stored'],
    );
    const { execution_summary: failed } = await scene.runs.untilState(failing, 'FAILED', 'COMPLETED');
    assert.deepEqual([failed.cause, failed.exit_code], ['exit', 7]);
    assert.deepEqual(
      (await namesOf(failing)).filter((name) => !name.endsWith('missing')),
      ['all/kept stored', 'all/model stored'],
    );
  });

  test('are there after the launcher was killed between submission and end, and the log is whole', async () => {
    const killed = await launch('launcher');
    const script = `echo begun; while [ ! -e /gates/open ]; do sleep 0.1; done
      cat /data/in.txt >/out/copy; for n in 1 2 3 4 5; do echo "line $n"; done`;
    const artifacts = { in: await sources(), out: { copy: { path: '/out/copy' } } };
    const id = await create(script, artifacts, { mounts: [{ volume: 'gates', path: '/gates' }] });
    await until(async () => (await logOf(id)).includes('begun'), 'the program has begun');
    killed.signal('SIGKILL');
    await killed.exited;
    writeFileSync(join(gates, 'open'), '');
    await launch('launcher');
    await completed(id);
    assert.deepEqual(
      (await scene.runs.timeline(id)).filter((entry) => !/SUBMITTED|PREPARING/.test(entry)),
      ['1 STARTED', '1 COMPLETED'],
    );
    assert.equal(await contentOf(id, 'copy'), 'content\n');
    const lines = ['begun', ...[1, 2, 3, 4, 5].map((n) => `line ${n}`)];
    const whole = [...lines, '[worker] stored copy (/out/copy): 8 bytes'];
    await until(async () => (await logOf(id)).length >= 2 + whole.length, 'the log is whole');
    assert.deepEqual((await logOf(id)).slice(2), whole);
  });
});
