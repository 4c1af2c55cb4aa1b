import assert from 'node:assert/strict';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, test } from 'vitest';
import type { JobSpec } from '@longshore/launchers/launcher/engine';
import type { SlurmEngine } from '@longshore/launchers/slurm/slurm.engine';
import { makeImageFolder } from '../../support/images/image-folders.js';
import { skipFor } from '../../support/skip.js';
import { until } from '../../support/service-process.js';
import { skipWithoutSlurm } from '../../support/workers/slurm-cluster.js';
import { SlurmEngines, untilKind } from '../../support/workers/slurm-engines.js';

type Mount = JobSpec['mounts'][number];

const skip = skipWithoutSlurm();

describe('mounts of runs on a real Slurm', skipFor(skip), () => {
  let engines: SlurmEngines;
  let base: string;

  beforeAll(async () => {
    engines = await SlurmEngines.start();
    // An image without the folders at which runs mount something, and with a link.
    const images = join(engines.cluster.folder, 'images');
    makeImageFolder(images, 'tool', 'eval "$1"');
    symlinkSync('/etc', join(images, 'tool', 'link'));
  });
  beforeEach(() => {
    base = join(engines.cluster.folder, 'volumes');
    for (const name of ['data', 'out', 'disk']) mkdirSync(join(base, name), { recursive: true });
    writeFileSync(join(base, 'data', 'set'), 'content\n');
  });
  afterEach(async () => {
    await engines.clear();
    assert.deepEqual(readdirSync(join(base, 'disk')), [], 'no empty folder is left on the node');
    rmSync(base, { recursive: true });
  });
  afterAll(() => engines?.stop());

  function open(tool: string): Promise<SlurmEngine> {
    return engines.open(tool, {
      volumes: `data=${base}/data:ro,out=${base}/out`,
      env: { SERVICE_WORKER_SLURM_SCRATCH: join(base, 'disk') },
      graceSeconds: 1,
    });
  }

  const end = (engine: SlurmEngine, script: string, mounts: readonly Mount[]) =>
    engines.end(engine, { mounts, args: [script] });
  const printed = (engine: SlurmEngine, script: string, mounts: readonly Mount[]) =>
    engines.printed(engine, { mounts, args: [script] });

  async function failure(...given: Parameters<typeof end>): Promise<readonly [string, string]> {
    const { status, lines } = await end(...given);
    assert.ok(status.kind === 'failed', JSON.stringify(status));
    assert.ok(!status.message.includes(base), 'no path of the node is shown');
    assert.deepEqual(lines, []);
    return [status.cause, status.message];
  }

  for (const tool of ['charliecloud', 'runc']) {
    describe(tool, () => {
      test('keep what a run writes, and let nobody write what is read-only', async () => {
        const engine = await open(tool);
        const mounts = [
          { volume: 'data', path: '/data', read_only: true },
          { volume: 'out', path: '/results/of this, run' },
          { volume: 'out', path: '/part', read_only: true, sub_path: 'a' },
        ];
        mkdirSync(join(base, 'out', 'a'), { mode: 0o777 });
        chmodSync(join(base, 'out', 'a'), 0o777);
        const script =
          'cat /data/set; echo x >"/results/of this, run/x"; for d in /data /part; do echo x 2>/dev/null >$d/x && echo written $d; ' +
          'busybox mount -o remount,rw,bind $d 2>/dev/null; echo x 2>/dev/null >$d/x && echo remounted $d; done; true';
        assert.deepEqual(await printed(engine, script, mounts), ['content']);
        const next = [{ volume: 'out', path: '/out' }];
        assert.deepEqual(await printed(engine, 'cat /out/x; busybox ls /out', next), ['x', 'a', 'x']);
        assert.equal(readFileSync(join(base, 'out', 'x'), 'utf8'), 'x\n');
      });

      test('create the folder within a volume for everybody', async () => {
        const engine = await open(tool);
        const mounts = [{ volume: 'out', path: '/out', sub_path: 'team a/run' }];
        await printed(engine, 'echo x >/out/x', mounts);
        const modes = ['out/team a', 'out/team a/run'].map(
          (path) => statSync(join(base, path)).mode & 0o7777,
        );
        assert.deepEqual(modes, [0o1777, 0o1777]);
        assert.deepEqual(await printed(engine, 'cat /out/x', mounts), ['x']);
      });

      test('give an empty folder, which ends with the attempt, whether it ends by itself or is cancelled', async () => {
        const engine = await open(tool);
        const mounts = [
          { scratch_mb: 1, path: '/scratch' },
          { scratch_mb: 1, path: '/tmp' },
        ];
        const script =
          'busybox ls -A /scratch /tmp; echo x >/scratch/x && echo y >/tmp/y && cat /scratch/x /tmp/y';
        const lines = await printed(engine, script, mounts);
        assert.deepEqual(
          lines.filter((line) => line.length === 1),
          ['x', 'y'],
        );
        assert.deepEqual(readdirSync(join(base, 'disk')), []);
        const waits = engines.spec({ mounts, args: ["trap '' TERM; while :; do sleep 0.1; done"] });
        const job = await engine.submit(waits);
        await untilKind(engine, job, 'running');
        assert.equal(readdirSync(join(base, 'disk')).length, 1);
        await engine.remove(job);
        await until(() => readdirSync(join(base, 'disk')).length === 0, 'the folder is removed');
      });

      test('fail the run for links, for what leads up, and for what is missing', async () => {
        const engine = await open(tool);
        symlinkSync('/etc', join(base, 'out', 'link'));
        symlinkSync('.', join(base, 'out', 'self'));
        for (const sub_path of ['link', 'self/a', '..', 'new/../../data'])
          assert.deepEqual(await failure(engine, 'true', [{ volume: 'out', path: '/out', sub_path }]), [
            'error',
            `A part of the folder '${sub_path}' of the volume 'out' is a link, no folder or too long`,
          ]);
        const missing = { volume: 'out', path: '/out', sub_path: 'none/a', read_only: true };
        assert.deepEqual(await failure(engine, 'true', [missing]), [
          'error',
          "There is no folder 'none/a' of the volume 'out'",
        ]);
        assert.deepEqual(await failure(engine, 'true', [{ volume: 'out', path: '/link/a' }]), [
          'error',
          "A part of the path of a file or mount is too long, or a link or something else in the image: '/link/a'",
        ]);
        assert.equal(existsSync('/etc/a'), false);
      });

      test('fail the attempt as infrastructure when a volume is missing on the node', async () => {
        const engine = await open(tool);
        rmSync(join(base, 'data'), { recursive: true });
        assert.deepEqual(
          await failure(engine, 'true', [{ volume: 'data', path: '/data', read_only: true }]),
          ['infrastructure', "The volume 'data' is missing on the node of the job"],
        );
      });
    });
  }

  test('see the folder that was checked, whatever another run puts in its place', async () => {
    const engine = await open('charliecloud');
    const out = join(base, 'out');
    mkdirSync(join(base, 'outside'));
    writeFileSync(join(base, 'outside', 'secret'), '');
    mkdirSync(join(out, 'a'));
    writeFileSync(join(out, 'a', 'mine'), '');
    symlinkSync(join(base, 'outside'), join(out, 'trap'));
    const over = new AbortController();
    const swapping = (async () => {
      while (!over.signal.aborted) {
        renameSync(join(out, 'a'), join(out, 'saved'));
        renameSync(join(out, 'trap'), join(out, 'a'));
        await sleep(1);
        renameSync(join(out, 'a'), join(out, 'trap'));
        renameSync(join(out, 'saved'), join(out, 'a'));
        await sleep(1);
      }
    })();
    try {
      for (let tries = 0; tries < 12; tries += 1) {
        const mount = { volume: 'out', path: '/out', sub_path: 'a', read_only: true };
        const { status, lines } = await end(engine, 'busybox ls /out', [mount]);
        if (status.kind === 'exited') assert.deepEqual(lines, ['mine']);
        else assert.ok(status.kind === 'failed' && status.cause === 'error', JSON.stringify(status));
      }
    } finally {
      over.abort();
      await swapping;
    }
  });

  test('end the launcher at its start when a volume is missing in the shared file system', async () => {
    const volumes = `data=${base}/data:ro,gone=${base}/gone`;
    await assert.rejects(engines.open('charliecloud', { volumes }), {
      name: 'SettingsError',
      message: `SERVICE_WORKER_VOLUMES: there is no folder '${base}/gone' for the volume 'gone'`,
    });
  });
});
