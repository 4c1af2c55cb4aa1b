import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { NO_VOLUMES, parseVolumes } from '@longshore/worker/runtime/volumes';
import { MemoryLog } from '@longshore/worker/testing/container-spec';
import { checkVolumes } from './volume-check.js';

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
