import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { promisify } from 'node:util';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('the commands of docs/mounts-and-files.md', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let folder: string;
  let blocks: DocBlocks;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'mounts-page-'));
    blocks = await DocBlocks.read('docs/mounts-and-files.md');
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  /** Runs the block with the name. @returns the id of the run that it creates */
  const create = async (name: string): Promise<string> => {
    const env = { ...process.env, URL: service.url, KEY: KEYS.admin };
    const options = { cwd: folder, env, timeout: 800_000 };
    await promisify(execFile)('bash', ['-euc', blocks.one(name)], options);
    return JSON.parse(await readFile(join(folder, 'run.json'), 'utf8')).id;
  };

  test('create a run with a data set, a folder for its results and an empty one, for a worker that offers all', async () => {
    const id = await create('mounts');
    const { body } = await service.send('GET', `/runs/${id}/explain`);
    assert.deepEqual(body.requirements.capabilities.toSorted(), [
      'command',
      'container',
      'files',
      'scratch',
      'volume:datasets',
      'volume:results:rw',
    ]);
    const others = ['command', 'container', 'files', 'scratch', 'volume:results', 'volume:results:rw'];
    await steps.heartbeat('without', { capabilities: others });
    assert.deepEqual(await steps.claim('without'), []);
    assert.match(
      (await service.send('GET', `/runs/${id}/explain`)).body.summary,
      /no active worker offers the volume 'datasets'/,
    );
    await steps.heartbeat('with', { capabilities: [...others, 'volume:datasets'] });
    const [op] = await steps.claim('with');
    assert.deepEqual(
      [op.id, op.mounts],
      [
        id,
        [
          { volume: 'datasets', path: '/data', read_only: true },
          { volume: 'results', path: '/out', sub_path: `team-a/${id}` },
          { scratch_mb: 500_000, path: '/scratch' },
        ],
      ],
    );
  });

  test('create a run with files, for a worker that can put them into the container', async () => {
    const id = await create('files');
    await steps.heartbeat('without', { capabilities: ['command', 'secrets'] });
    assert.deepEqual(await steps.claim('without'), []);
    await steps.heartbeat('with', { capabilities: ['command', 'files'] });
    const [op] = await steps.claim('with');
    assert.deepEqual(
      [op.id, op.files],
      [
        id,
        {
          '/etc/job/run.sh': { content: '#!/bin/sh\nexec backup --key "$KEY_FILE"\n', mode: '0555' },
          '/run/keys/gcp.json': { secret: 'gcp-key', env: 'KEY_FILE', mode: '0400' },
        },
      ],
    );
  });
});
