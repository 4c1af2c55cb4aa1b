import assert from 'node:assert/strict';
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'vitest';
import type { DockerRuntime } from '@longshore/worker/runtime/docker/docker.runtime';
import type { ContainerSpec } from '@longshore/worker/runtime/runtime';
import { parseVolumes } from '@longshore/worker/settings/volumes';
import { containerSpec, readToEnd, textsOf } from '@longshore/worker/testing/container-spec';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { runtimeFor } from '../../support/images/docker-runtime.js';
import { importLinked, type ImageContents } from '../../support/images/linked-image.js';
import { skipFor } from '../../support/skip.js';

const forTests = await startTestEngine();

/** A setting of the host's kernel that does no harm: what must not be written. */
const SETTING = '/proc/sys/vm/laptop_mode';

type More = Partial<ContainerSpec>;

const DATA = { volume: 'out', path: '/data' };

function file(path: string): More {
  return { files: [{ path, content: 'of the run', mode: 0o444, isSecret: false }] };
}

/** The image, the run, and what is wrong with it. The volume `out` has the link `null` to the setting, and the folder `etc`. */
const REFUSED: Readonly<Record<string, readonly [image: ImageContents, run: More, why: string]>> = {
  'a VOLUME of the image through a link to /dev': [
    { links: { '/x/dev': '/dev', '/dev/null': SETTING }, changes: ['VOLUME /x/dev'] },
    {},
    "The VOLUME of the image '/x/dev' cannot be used: '/x/dev' is a link in the image",
  ],
  'a volume at a link to /dev': [
    { links: { '/x/dev': '/dev' } },
    { mounts: [{ volume: 'out', path: '/x/dev' }] },
    "The mount '/x/dev' cannot be used: '/x/dev' is a link in the image",
  ],
  'a volume at a chain of links': [
    { links: { '/x/a': 'b', '/x/b': '../y', '/y': 'dev/../dev' } },
    { mounts: [{ volume: 'out', path: '/x/a' }] },
    "The mount '/x/a' cannot be used: '/x/a' is a link in the image",
  ],
  'an empty folder through a link to /proc': [
    { links: { '/x': '/proc' } },
    { mounts: [{ scratch_mb: 1, path: '/x/sys' }] },
    "The mount '/x/sys' cannot be used: '/x' is a link in the image",
  ],
  "a volume at a link to the worker's folder": [
    { links: { '/x/l': '/longshore' } },
    { mounts: [{ volume: 'out', path: '/x/l' }] },
    "The mount '/x/l' cannot be used: '/x/l' is a link in the image",
  ],
  "a volume to which the worker's folder is a link": [
    { links: { '/longshore': '/data' } },
    { mounts: [DATA] },
    "The folder '/longshore' cannot be used: '/longshore' is a link in the image",
  ],
  "a link in the place of the worker's folder": [
    { links: { '/longshore': '/etc' } },
    {},
    "The folder '/longshore' cannot be used: '/longshore' is a link in the image",
  ],
  'a file through a link into a volume': [
    { links: { '/x/d': '/data' } },
    { mounts: [DATA], ...file('/x/d/etc/cron') },
    "The file '/x/d/etc/cron' cannot be used: '/x/d' is a link in the image",
  ],
  'a file at a link': [
    { links: { '/x': '/nowhere' } },
    file('/x'),
    "The file '/x' cannot be used: '/x' is a link in the image",
  ],
  'a volume through a link into another one': [
    { links: { '/x/d': '/data' } },
    { mounts: [DATA, { volume: 'out', path: '/x/d/etc/sub', sub_path: 'sub' }] },
    "The mount '/x/d/etc/sub' cannot be used: '/x/d' is a link in the image",
  ],
  'a VOLUME of the image within a volume': [
    { changes: ['VOLUME /data/etc/cache'] },
    { mounts: [DATA] },
    "The VOLUME of the image '/data/etc/cache' cannot be used: it is in the mount '/data'",
  ],
  "a volume in which the engine's files would be": [
    {},
    { mounts: [{ volume: 'out', path: '/etc' }] },
    "The mount '/etc' cannot be used: the engine has '/etc/hosts' in it",
  ],
  "a volume to which a link leads the engine's files": [
    { links: { '/usr/sbin': '../data/etc', '/sbin': 'usr/sbin' } },
    { mounts: [DATA] },
    "The mount '/data' cannot be used: the engine has '/sbin/docker-init' in it",
  ],
  "a VOLUME of the image in the worker's folder": [
    { changes: ['VOLUME /x/../longshore/y'] },
    {},
    "The VOLUME of the image '/longshore/y' cannot be used: it is in /longshore",
  ],
  'a VOLUME of the image in /sys': [
    { changes: ['VOLUME /sys/x'] },
    {},
    "The VOLUME of the image '/sys/x' cannot be used: it is in /sys",
  ],
  'a working directory at a link to an open file': [
    { links: { '/x': '/proc/self/fd/7' } },
    { workdir: '/x' },
    "The working directory '/x' cannot be used: '/x' is a link in the image",
  ],
  'a working directory of the image in /proc': [
    { changes: ['WORKDIR /proc/self/fd/7'] },
    {},
    "The WORKDIR of the image '/proc/self/fd/7' cannot be used: it is in /proc",
  ],
  'a working directory of the image through a link to /proc': [
    { links: { '/x': 'y/../proc/self' }, folders: ['/y'], changes: ['WORKDIR /x/cwd'] },
    {},
    "The WORKDIR of the image '/x/cwd' cannot be used: it is in /proc",
  ],
  'a working directory at a link within a volume': [
    {},
    { mounts: [DATA], workdir: '/data/null' },
    "The working directory '/data/null' cannot be used: '/data/null' is a link in the volume",
  ],
  'a working directory of the image through a link into a volume': [
    { links: { '/app': '/data' }, changes: ['WORKDIR /app/null'] },
    { mounts: [DATA] },
    "The working directory '/data/null' cannot be used: '/data/null' is a link in the volume",
  ],
  'a volume below a file': [
    { files: ['/f'] },
    { mounts: [{ volume: 'out', path: '/f/a' }] },
    "The mount '/f/a' cannot be used: the image has something else at '/f'",
  ],
};

const setting = (): string => readFileSync(SETTING, 'utf8');

describe('places in a container on a real engine', skipFor(forTests.skip), () => {
  let base: string;
  let before: string;
  let docker: DockerRuntime;

  beforeEach(async () => {
    before = setting();
    base = mkdtempSync(join(forTests.engine.folder, 'places-'));
    mkdirSync(join(base, 'etc'));
    writeFileSync(join(base, 'etc', 'cron'), 'of root\n', { mode: 0o600 });
    symlinkSync(SETTING, join(base, 'null'));
    const volumes = parseVolumes(`out=${base}`) ?? new Map();
    docker = runtimeFor(forTests.engine, { network: 'none', volumes });
    await docker.checkVolumes();
  });
  afterEach(async () => {
    if (setting() !== before) writeFileSync(SETTING, before);
    rmSync(base, { recursive: true });
    assert.deepEqual(await forTests.engine.containerIds(), [], 'no container may be left');
    assert.deepEqual((await forTests.engine.docker.listVolumes()).Volumes, [], 'no volume may be left');
  });

  /** What a container prints, and its outputs. */
  async function run(
    contents: ImageContents,
    script: string,
    more: More = {},
  ): Promise<{ readonly lines: string[]; readonly outputs: string | undefined }> {
    const image = await importLinked(forTests.engine, contents);
    const command = ['/bin/busybox', 'sh', '-c', script];
    const container = await docker.start({ ...containerSpec(image, { a: 1 }), command, ...more });
    try {
      const { lines } = await readToEnd(container);
      const outputs = (await container.readOutputs())?.toString();
      return { lines: textsOf(lines, 'stdout'), outputs };
    } finally {
      await container.remove();
    }
  }

  function assertUntouched(): void {
    assert.equal(setting(), before, 'the host is as it was');
    assert.deepEqual(readdirSync(base), ['etc', 'null'], 'the volume is as it was');
    assert.deepEqual(readdirSync(join(base, 'etc')), ['cron']);
    assert.equal(readFileSync(join(base, 'etc', 'cron'), 'utf8'), 'of root\n');
    assert.equal(statSync(base).mode & 0o7777, 0o700);
  }

  for (const [what, [image, more, message]] of Object.entries(REFUSED)) {
    it(`fail the run, with the path, before anything is mounted: ${what}`, async () => {
      const other = String(Number(before) + 1);
      await assert.rejects(run(image, `echo ${other}`, more), { name: 'RunFault', message });
      assertUntouched();
    });
  }

  for (const [what, image, more] of [
    ['a VOLUME', { links: { '/dev': '/v', '/v/null': SETTING }, changes: ['VOLUME /v'] }, {}],
    [
      'a volume',
      { links: { '/dev': '/data', '/proc': '/data', '/sys': '/data', '/etc': '/data' } },
      { mounts: [DATA] },
    ],
  ] as const) {
    it(`are not reached where links of the image lead the system's folders, which engines replace: ${what}`, async () => {
      const other = String(Number(before) + 1);
      assert.deepEqual((await run(image, `echo ${other}`, more)).lines, [other]);
      assertUntouched();
    });
  }

  it('are as the run and the image want them where no link is, also those of images with links elsewhere', async () => {
    const image = {
      links: { '/sbin': 'usr/sbin', '/etc/resolv.conf': '../run/resolv.conf', '/app': '/srv/app' },
      folders: ['/usr/sbin', '/srv/app', '/v/deep'],
      files: ['/v/deep/file'],
      changes: ['VOLUME ["/v", "/new/volume/", "/data"]', 'WORKDIR /app'],
    };
    const mounts = [
      DATA,
      { scratch_mb: 1, path: '/v/scratch' },
      { volume: 'out', path: '/v/in', sub_path: 'etc' },
    ];
    const script =
      'b() { /bin/busybox "$@"; }; b pwd; b cat /data/etc/cron /v/in/cron /v/deep/file /v/f; b ls -d /new/volume; echo "{\\"b\\": 2}" >$SERVICE_OUTPUT_PATH; b cat $SERVICE_INPUT_PATH';
    const got = await run(image, script, { mounts, user: '0', ...file('/v/f') });
    assert.deepEqual(got, {
      lines: ['/srv/app', 'of root', 'of root', 'of the image', 'of the run/new/volume', '{"a":1}'],
      outputs: '{"b": 2}\n',
    });
    assertUntouched();
  });

  it('take a working directory within a volume', async () => {
    const { lines } = await run({}, 'pwd', { mounts: [DATA], workdir: '/data/etc' });
    assert.deepEqual(lines, ['/data/etc']);
  });

  it('are looked at once for each image, and not in a container of their own without mounts', async () => {
    const image = await importLinked(forTests.engine, {});
    const { Id } = await forTests.engine.docker.getImage(image).inspect();
    const since = Math.floor(Date.now() / 1000);
    const creates = async (): Promise<number> => {
      const filters = { event: ['create'], image: [Id] };
      const until = Math.ceil(Date.now() / 1000);
      const events = await forTests.engine.docker.getEvents({ since, until, filters });
      let text = '';
      for await (const piece of events) text += piece.toString();
      return text.split('\n').filter(Boolean).length;
    };
    const start = async (more: More): Promise<void> => {
      const container = await docker.start({
        ...containerSpec(Id),
        command: ['/bin/busybox', 'true'],
        ...more,
      });
      await container.exit;
      await container.remove();
    };
    await start({});
    assert.equal(await creates(), 1);
    const mounts = [{ scratch_mb: 1, path: '/scratch' }];
    await start({ mounts });
    assert.equal(await creates(), 3);
    await start({ mounts });
    assert.equal(await creates(), 4);
  });

  for (const [what, script] of [
    ['its folder is a link to a file of root', 'b mv /longshore /old && b ln -s /data/etc /longshore'],
    [
      'its folder is a link to another one of the container',
      'b mv /longshore /old && b ln -s /old /longshore',
    ],
  ] as const) {
    it(`read no outputs through a link: ${what}`, async () => {
      await assert.rejects(run({}, `b() { /bin/busybox "$@"; }; ${script}`), {
        name: 'RunFault',
        message: "The run's output file cannot be used: /longshore is no folder any more",
      });
    });
  }

  it('are not mounted again for the outputs, where a program has put links in their paths', async () => {
    const mounts = [DATA, { scratch_mb: 1, path: '/x/scratch' }];
    const script =
      'b() { /bin/busybox "$@"; }; b mv /etc /old && b ln -s /data /etc; b mv /x /y && b ln -s /data /x; b mv /longshore /z; echo "{}" >$SERVICE_OUTPUT_PATH';
    const { outputs } = await run({}, script, { mounts, user: '0' });
    assert.equal(outputs, '{}\n');
    assertUntouched();
  });
});
