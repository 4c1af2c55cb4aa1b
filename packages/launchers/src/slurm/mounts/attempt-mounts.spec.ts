import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { NO_VOLUMES, parseVolumes } from '@longshore/worker/runtime/volumes';
import { CONTAINER_TOOLS } from '@longshore/worker/settings/slurm-settings';
import { attemptMounts } from './attempt-mounts.js';

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
