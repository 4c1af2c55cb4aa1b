import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test, afterAll, beforeAll } from 'vitest';
import { NO_VOLUMES, parseVolumes } from '@longshore/worker/settings/volumes';
import { CONTAINER_TOOLS, type ContainerTool } from '@longshore/worker/settings/slurm-settings';
import { attemptMounts, checkVolumes } from './attempt-mounts.js';
import { MemoryLog } from '@longshore/worker/testing/container-spec';

const OFFERED = parseVolumes('data=/srv/data:ro,out=/srv/out') ?? NO_VOLUMES;
const SCRIPT = { script: '/x' };

describe('the mounts of an attempt', () => {
  test('are folders of the volumes that the launcher offers, and empty folders', () => {
    const mounts = [
      { volume: 'data', path: '/data', read_only: true },
      { volume: 'out', path: '/out', sub_path: 'a/b' },
      { scratch_mb: 5, path: '/scratch' },
    ];
    assert.deepEqual(attemptMounts({ mounts, files: [] }, SCRIPT, OFFERED), [
      { volume: 'data', source: '/srv/data', subPath: '', mode: 'ro', path: '/data' },
      { volume: 'out', source: '/srv/out', subPath: 'a/b', mode: 'rw', path: '/out' },
      { volume: '', source: '', subPath: '', mode: 'rw', path: '/scratch' },
    ]);
  });

  test('are refused for a volume that is not offered, or not for writing', () => {
    for (const [volume, message] of [
      ['other', "This worker does not offer the volume 'other'"],
      ['data', "This worker does not offer the volume 'data' for writing"],
    ] as const)
      assert.throws(
        () => attemptMounts({ mounts: [{ volume, path: '/data' }], files: [] }, SCRIPT, OFFERED),
        {
          name: 'Error',
          message,
        },
      );
  });

  test('are refused, as files are, at a path that the tool would read as something else, or where it has other things', () => {
    const tools = [...CONTAINER_TOOLS, SCRIPT];
    for (const [path, refusing] of [
      ['/data', []],
      ['/a b', ['apptainer', 'enroot']],
      ['/a,/etc', ['apptainer', 'enroot']],
      ['/$HOME', ['apptainer', 'enroot']],
      ['/mnt', ['charliecloud', 'runc']],
      ['/mnt/a', ['charliecloud', 'runc']],
      ['/tmp', []],
      ['/tmp/a', ['charliecloud']],
      ['/etc/passwd', ['charliecloud']],
      ['/etc/group', ['charliecloud']],
    ] as const) {
      const file = { path, content: '', mode: 0o444, isSecret: false };
      for (const given of [
        { mounts: [{ volume: 'out', path }], files: [] },
        { mounts: [], files: [file] },
      ]) {
        const refused = tools.filter((tool) => {
          try {
            attemptMounts(given, tool, OFFERED);
            return false;
          } catch (error) {
            assert.ok(
              error instanceof Error && error.name === 'RunFault' && error.message.includes(`'${path}'`),
            );
            return true;
          }
        });
        assert.deepEqual(refused, refusing, path);
      }
    }
  });
});

function accepts(path: string, tool: ContainerTool): boolean {
  try {
    return attemptMounts({ mounts: [{ volume: 'out', path }], files: [] }, tool, OFFERED).length === 1;
  } catch (error) {
    assert.ok(error instanceof Error && error.name === 'RunFault', String(error));
    assert.ok(error.message.includes(`'${path}'`));
    return false;
  }
}

test('a path reaches apptainer and enroot only if no character of it has a meaning for them, and none is where the container has its own', () => {
  const characters = [
    ...Array.from({ length: 0x5f }, (_, index) => String.fromCodePoint(0x20 + index)),
    'ü',
    '\u{1F511}',
  ];
  for (const tool of ['apptainer', 'enroot'] as const)
    assert.equal(
      characters.filter((character) => accepts(`/a${character}b`, tool)).join(''),
      '+-./0123456789=@ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz',
    );
  // A scratch folder of these names would have been three binds of the node.
  for (const tool of ['apptainer', 'enroot'] as const) assert.ok(!accepts('/x,/home,/y', tool));
  const own = ['/', '/dev/a', '/proc', '/sys/a', '/longshore', '/a/../proc'];
  for (const tool of CONTAINER_TOOLS)
    assert.deepEqual(
      own.filter((path) => accepts(path, tool)),
      [],
      tool,
    );
});

describe('the check of volumes at the start of a launcher of Slurm', () => {
  let base: string;

  beforeAll(() => {
    base = mkdtempSync(join(tmpdir(), 'longshore-volumes-'));
    mkdirSync(join(base, 'there'));
    symlinkSync('there', join(base, 'link'));
    writeFileSync(join(base, 'file'), '');
  });
  afterAll(() => rmSync(base, { recursive: true }));

  async function check(...folders: readonly string[]): Promise<MemoryLog> {
    const volumes = parseVolumes(folders.map((folder, index) => `v${index}=${folder}`).join()) ?? NO_VOLUMES;
    assert.equal(volumes.size, folders.length);
    const log = new MemoryLog();
    await checkVolumes(volumes, base, log);
    return log;
  }

  test('passes folders that are there, also by a link of the operator', async () => {
    assert.deepEqual((await check(join(base, 'there'), join(base, 'link'))).warnings, []);
  });

  test('names each volume that is missing on the file system of the jobs, or is no folder', async () => {
    await assert.rejects(check(join(base, 'a', 'b'), join(base, 'there'), join(base, 'file')), {
      name: 'SettingsError',
      message: new RegExp(
        `SERVICE_WORKER_VOLUMES: there is no folder '${base}/a/b' for the volume 'v0'\\n.*'${base}/file' for the volume 'v2'`,
      ),
    });
  });

  test('warns of a volume that may be on the nodes alone', async () => {
    const { warnings } = await check('/proc/none');
    assert.deepEqual(
      warnings.map(({ fields }) => fields),
      [{ volume: 'v0' }],
    );
  });
});
