import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
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
import { afterEach, beforeAll, beforeEach, describe, it } from 'vitest';
import { RUN_LABEL } from '@longshore/worker/runtime/docker/container/container-options';
import { DockerRuntime } from '@longshore/worker/runtime/docker/docker.runtime';
import type { ContainerSpec } from '@longshore/worker/runtime/runtime';
import { parseVolumes } from '@longshore/worker/settings/volumes';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { HAS_READ_ONLY_PARTS, NO_OPEN_FOLDERS } from '../../support/images/engine-variants.js';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine();

type Mount = ContainerSpec['mounts'][number];

const containersOfRuns = () =>
  forTests.engine.docker.listContainers({ all: true, filters: { label: [RUN_LABEL] } });

/** Whether there is a container with mounts: the one of a run, not one in which its image is looked into. */
const hasMounted = async (): Promise<boolean> =>
  (await containersOfRuns()).some(({ Mounts: mounts }) => mounts.some(({ Type: type }) => type === 'bind'));

/** An image with things where mounts may be. */
const DOCKERFILE = [
  'RUN mkdir /real /full && ln -s /real /link && echo image >/full/a && echo image >/file',
  'VOLUME /full',
];

describe('mounts of runs on a real engine', skipFor(forTests.skip || NO_OPEN_FOLDERS), () => {
  let base: string;
  let docker: DockerRuntime;
  let image: string;

  beforeAll(async () => {
    image = await forTests.engine.buildScript('mounts', 'exec sh -c "$1"', DOCKERFILE);
    await forTests.engine.docker.createVolume({ Name: 'kept' });
  });
  beforeEach(async () => {
    base = mkdtempSync(join(forTests.engine.folder, 'volumes-'));
    for (const name of ['data', 'out']) mkdirSync(join(base, name));
    writeFileSync(join(base, 'data', 'set'), 'content\n');
    docker = runtime(`data=${base}/data:ro,out=${base}/out,kept=docker-volume:kept`);
    await docker.checkVolumes();
  });
  afterEach(async () => {
    rmSync(base, { recursive: true });
    assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
    assert.deepEqual(await volumeNames(), ['kept'], 'no volume may be left');
  });

  /** What the script prints in a container with the mounts, which ends with 0. */
  async function printed(
    script: string,
    mounts: readonly Mount[],
    more: Partial<ContainerSpec> = {},
  ): Promise<string[]> {
    const container = await docker.start({ ...containerSpec(image), args: [script], mounts, ...more });
    try {
      const { lines, exit } = await readToEnd(container);
      assert.equal(exit.exitCode, 0, JSON.stringify(lines));
      await container.readOutputs();
      return textsOf(lines, 'stdout');
    } finally {
      await container.remove();
    }
  }

  const owner = (path: string): string => {
    const { mode, uid, gid } = statSync(join(base, path));
    return `${(mode & 0o7777).toString(8)} ${uid}:${gid}`;
  };

  it('are read-only where the run or the worker says so, also for root', async () => {
    const mounts = [
      { volume: 'data', path: '/data', read_only: true },
      { volume: 'out', path: '/out', read_only: true },
      { volume: 'kept', path: '/kept', read_only: true },
      ...(HAS_READ_ONLY_PARTS ? [{ volume: 'out', path: '/part', read_only: true, sub_path: 'a' }] : []),
    ];
    mkdirSync(join(base, 'out', 'a'), { mode: 0o777 });
    const script =
      'cat /data/set; for d in /data /out /kept $(ls -d /part 2>/dev/null); do echo x 2>/dev/null >$d/x && echo written $d; done; for d in /data $(ls -d /part 2>/dev/null); do mount -o remount,rw $d 2>/dev/null && echo remounted; done; true';
    assert.deepEqual(await printed(script, mounts, { user: '0' }), ['content']);
    await assert.rejects(printed('true', [{ volume: 'data', path: '/data' }]), {
      name: 'Error',
      message: "This worker does not offer the volume 'data' for writing",
    });
    await assert.rejects(printed('true', [{ volume: 'other', path: '/data', read_only: true }]), {
      message: "This worker does not offer the volume 'other'",
    });
  });

  it('keep what a run writes for the next one, in folders and in volumes of the engine', async () => {
    const mounts = [inOut('a'), { volume: 'kept', path: '/kept' }];
    assert.deepEqual(await printed('echo one >/out/x; echo two >/kept/x; ls /out', mounts), ['x']);
    assert.deepEqual(await printed('cat /out/x /kept/x', mounts), ['one', 'two']);
    assert.equal(readFileSync(join(base, 'out/a/x'), 'utf8'), 'one\n');
  });

  it('take a folder within a volume of the engine', async () => {
    const mount = { volume: 'kept', path: '/kept', sub_path: 'deep/y' };
    assert.deepEqual(await printed('echo within >/kept/z; ls /kept', [mount]), ['z']);
    assert.deepEqual(await printed('cat /kept/deep/y/z', [{ volume: 'kept', path: '/kept' }]), ['within']);
  });

  it('create the folder within a volume for the user of the run, or for everybody', async () => {
    await printed('id -u; echo x >/out/x', [inOut('a/b')], { user: '1000:2000' });
    assert.deepEqual(['out/a', 'out/a/b', 'out/a/b/x'].map(owner), [
      '755 1000:2000',
      '755 1000:2000',
      '644 1000:2000',
    ]);
    await printed('true', [inOut('c/d')]);
    assert.deepEqual(['out/c', 'out/c/d'].map(owner), ['1777 0:0', '1777 0:0']);
    chmodSync(join(base, 'out/a'), 0o711);
    await printed('true', [inOut('a/e')], { user: '5' });
    assert.deepEqual(['out/a', 'out/a/e'].map(owner), ['711 1000:2000', '755 5:0']);
  });

  it('give an empty folder to the user of the run, which ends with the container', async () => {
    const mounts = [
      { scratch_mb: 1, path: '/scratch/deep' },
      { scratch_mb: 1, path: '/full' },
    ];
    const script =
      'stat -c "%a %u:%g" /scratch/deep /full; ls -A /scratch/deep /full | grep -v : ; echo x >/scratch/deep/x && echo x >/full/x';
    assert.deepEqual((await printed(script, mounts, { user: '1000:2000' })).filter(Boolean), [
      '755 1000:2000',
      '755 1000:2000',
    ]);
    assert.deepEqual((await printed(script, mounts)).filter(Boolean), ['1777 0:0', '1777 0:0']);
  });

  it('remove the empty folder of a worker that was killed with its container', async () => {
    const spec = {
      ...containerSpec(image),
      args: ['sleep 600'],
      mounts: [{ scratch_mb: 1, path: '/s' }, inOut('a')],
    };
    const killed = await docker.start(spec);
    assert.equal(
      (await volumeNames()).length,
      5,
      "the folder, the part of the volume, that of the image, the worker's own and `kept`",
    );
    writeFileSync(join(base, 'out/a/kept'), '');
    assert.equal(await runtime('').removeLeftovers(), 1);
    assert.deepEqual(readdirSync(join(base, 'out/a')), ['kept'], 'the volume itself stays');
    await killed.remove();
  });

  it('are there before the program starts, and leave the other files of the image', async () => {
    const files = [{ path: '/etc/a', content: 'file', mode: 0o444, isSecret: false }];
    const mounts = [{ volume: 'data', path: '/etc/data', read_only: true }];
    assert.deepEqual(await printed('cat /etc/data/set /etc/a; echo; cat /file', mounts, { files }), [
      'content',
      'file',
      'image',
    ]);
  });

  it('do not copy what the image has at their path into a volume', async () => {
    assert.deepEqual(await printed('ls /full', [{ volume: 'out', path: '/full' }]), []);
    await forTests.engine.docker.createVolume({ Name: 'fresh' });
    docker = runtime('fresh=docker-volume:fresh');
    assert.deepEqual(await printed('ls /full', [{ volume: 'fresh', path: '/full' }]), []);
    await forTests.engine.docker.getVolume('fresh').remove();
  });

  it.skipIf(!HAS_READ_ONLY_PARTS)(
    'fail the run for a folder that is not there and not to be created',
    async () => {
      await assert.rejects(printed('true', [inOut('a/b', { read_only: true })]), {
        name: 'RunFault',
        message: "There is no folder 'a/b' of the volume 'out'",
      });
      assert.deepEqual(readdirSync(join(base, 'out')), []);
    },
  );

  for (const [what, make] of [
    ['a link out of the volume', (out: string) => symlinkSync('/etc', join(out, 'a'))],
    ['a link within the volume', (out: string) => symlinkSync('.', join(out, 'a'))],
    ['a link that leads nowhere', (out: string) => symlinkSync('/nowhere', join(out, 'a'))],
    ['a file', (out: string) => writeFileSync(join(out, 'a'), '')],
  ] as const) {
    it(`fail the run for ${what} in the path of its folder`, async () => {
      make(join(base, 'out'));
      for (const path of ['a', 'a/b'])
        for (const read_only of HAS_READ_ONLY_PARTS ? [true, false] : [false])
          await assert.rejects(printed('true', [inOut(path, { read_only })]), {
            name: 'RunFault',
            message: `A part of the folder '${path}' of the volume 'out' is a link, no folder or too long`,
          });
    });
  }

  it('see the folder that was checked, whatever another run puts in its place', async () => {
    const out = join(base, 'out');
    mkdirSync(join(base, 'outside'));
    writeFileSync(join(base, 'outside', 'secret'), 'secret');
    mkdirSync(join(out, 'a'));
    writeFileSync(join(out, 'a', 'mine'), '');
    symlinkSync(join(base, 'outside'), join(out, 'trap'));
    const over = new AbortController();
    const swapping = (async () => {
      while (!over.signal.aborted) {
        renameSync(join(out, 'a'), join(out, 'saved'));
        renameSync(join(out, 'trap'), join(out, 'a'));
        await sleep(0);
        renameSync(join(out, 'a'), join(out, 'trap'));
        renameSync(join(out, 'saved'), join(out, 'a'));
        await sleep(0);
      }
    })();
    const seen = new Set<string>();
    try {
      for (let tries = 0; tries < 12; tries++) {
        try {
          seen.add((await printed('ls /out', [inOut('a')])).join());
        } catch (error) {
          assert.match(String(error), /is a link, no folder/);
        }
      }
    } finally {
      over.abort();
      await swapping;
    }
    seen.delete('mine');
    // A new folder in the moment without one.
    seen.delete('');
    assert.deepEqual([...seen], []);
  });

  it('stay on the folder when a link takes its place between the creation and the start of the container', async () => {
    const out = join(base, 'out');
    mkdirSync(join(out, 'a'));
    writeFileSync(join(out, 'a', 'mine'), '');
    const start = docker.start({ ...containerSpec(image), args: ['ls /out'], mounts: [inOut('a')] });
    const settled = new AbortController();
    void start.finally(() => settled.abort()).catch(() => undefined);
    while (!settled.signal.aborted && !(await hasMounted())) await sleep(1);
    renameSync(join(out, 'a'), join(out, 'moved'));
    symlinkSync('/etc', join(out, 'a'));
    const container = await start;
    const { lines } = await readToEnd(container);
    assert.deepEqual(textsOf(lines, 'stdout'), ['mine']);
    await container.readOutputs();
    await container.remove();
  });

  it('fail the attempt as infrastructure when a volume is missing later, without a path of the host', async () => {
    await forTests.engine.docker.createVolume({ Name: 'fresh' });
    docker = runtime(`out=${base}/out,fresh=docker-volume:fresh`);
    await docker.checkVolumes();
    rmSync(join(base, 'out'), { recursive: true });
    await forTests.engine.docker.getVolume('fresh').remove();
    for (const [mount, message] of [
      [{ volume: 'out', path: '/out' }, "The volume 'out' is missing on this worker, or cannot be mounted"],
      [inOut('a'), "The volume 'out' is missing on this worker"],
      [{ volume: 'fresh', path: '/out' }, "The volume 'fresh' is missing on this worker"],
    ] as const)
      await assert.rejects(printed('true', [mount]), { name: 'Error', message });
  });

  it('end the worker at its start when a volume is missing', async () => {
    for (const [volume, message] of [
      [
        `x=${base}/none`,
        `SERVICE_WORKER_VOLUMES: the container engine has no folder '${base}/none' for the volume 'x'`,
      ],
      [
        'x=docker-volume:none',
        "SERVICE_WORKER_VOLUMES: the container engine has no volume 'none' for the volume 'x'",
      ],
    ] as const)
      await assert.rejects(runtime(volume).checkVolumes(), { message });
  });

  it('refuse a folder within a volume where the engine does not see the open files of the worker', async () => {
    docker = runtime(`out=${base}/out`);
    await assert.rejects(printed('true', [inOut('a')]), {
      name: 'Error',
      message: "This worker cannot mount a part (sub_path) of the volume 'out'",
    });
    assert.deepEqual(readdirSync(join(base, 'out')), []);
  });

  for (const path of ['/link', '/file', '/file/a']) {
    it(`fail the run when the image has something else where it wants an empty folder at ${path}`, async () => {
      await assert.rejects(printed('true', [{ scratch_mb: 1, path }]), { name: 'RunFault' });
    });
  }
});

function runtime(volumes: string): DockerRuntime {
  return runtimeFor(forTests.engine, { network: 'none', volumes: parseVolumes(volumes) ?? new Map() });
}

async function volumeNames(): Promise<string[]> {
  return (await forTests.engine.docker.listVolumes()).Volumes.map(({ Name }) => Name);
}

function inOut(sub_path: string, more: Partial<Mount> = {}): Mount {
  return { volume: 'out', path: '/out', sub_path, ...more };
}
