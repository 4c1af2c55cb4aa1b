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

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

describe('the commands of docs/labels.md', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let folder: string;
  let blocks: DocBlocks;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'labels-page-'));
    blocks = await DocBlocks.read('docs/labels.md');
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  /** Runs the block with the name. @returns what it writes into the file */
  const follow = async (name: string, file: string): Promise<any> => {
    const env = { ...process.env, URL: service.url, KEY: KEYS.admin };
    await promisify(execFile)('bash', ['-euc', blocks.one(name)], { cwd: folder, env, timeout: 800_000 });
    return JSON.parse(await readFile(join(folder, file), 'utf8'));
  };

  test('create a run with a name and labels, find it, change both, and wait for its end', async () => {
    const { id } = await follow('create', 'run.json');
    await steps.create({ name: 'nightly of others', labels: { team: 'assess' } });
    const found = JSON.parse(await readFile(join(folder, 'found.json'), 'utf8'));
    assert.deepEqual(idsOf(found), [id]);
    assert.equal(found.data[0].name, 'nightly assessment');

    const changed = await follow('change', 'run.json');
    assert.deepEqual(
      [changed.id, changed.name, changed.labels],
      [id, 'assessment of Monday', { environment: 'prod', team: 'assess', owner: 'grace@example.com' }],
    );
    const { matched, runs } = await follow('bulk', 'dry-run.json');
    assert.deepEqual([matched, runs[0].id], [1, id]);

    assert.deepEqual(idsOf(await follow('failed', 'failed.json')), []);
    await steps.emptyQueue();
    for (const run of idsOf((await service.send('GET', '/runs')).body)) {
      await steps.event(run, 'STARTED', { worker_id: 'w' });
      await steps.event(run, 'FAILED', { error_message: 'x' });
    }
    assert.equal(idsOf(await follow('failed', 'failed.json')).at(-1), id);
    const ended = await follow('wait', 'run.json');
    assert.deepEqual([ended.id, ended.state], [id, 'FAILED']);
  });
});

function idsOf({ data }: { readonly data: readonly { readonly id: string }[] }): string[] {
  return data.map(({ id }) => id);
}
