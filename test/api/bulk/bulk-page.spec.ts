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

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** The answer with the id of the page in the place of any other. */
const asOnPage = (text: string): unknown =>
  JSON.parse(text.replaceAll(UUID, '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b'));

describe('the commands of docs/bulk.md', () => {
  const service = useTestApp();
  let folder: string;
  let commands: readonly string[];
  let answers: unknown[];

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'bulk-page-'));
    const blocks = await DocBlocks.read('docs/bulk.md');
    commands = blocks.all();
    answers = blocks.all('', 'json').map((text) => JSON.parse(text));
    assert.deepEqual([commands.length, answers.length], [5, 4]);
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  const run = async (command = ''): Promise<string> => {
    const env = { ...process.env, URL: service.url, KEY: KEYS.admin };
    const { stdout } = await promisify(execFile)('bash', ['-euc', command], {
      cwd: folder,
      env,
      timeout: 800_000,
    });
    return stdout;
  };

  test('create, claim and end a run, and answer what stands there', async () => {
    const created = await run(commands[0]);
    assert.deepEqual(asOnPage(created), answers[0]);
    const { id } = JSON.parse(created).results[0];
    await run(commands[1]);
    const { ops } = JSON.parse(await readFile(join(folder, 'claim.json'), 'utf8'));
    assert.deepEqual([ops.length, ops[0].id], [1, id]);
    assert.deepEqual(JSON.parse(await run(commands[2])), answers[1]);
    const { state, outputs } = await new RunSteps(service.send).get(id);
    assert.deepEqual([state, outputs], ['COMPLETED', { words: 2 }]);
  });

  test('cancel a run once', async () => {
    assert.deepEqual(JSON.parse(await run(commands[3])), answers[2]);
  });

  test('change all runs that a filter matches', async () => {
    const { created_at: at, ended_at: end, ...shown } = JSON.parse(await run(commands[4]));
    assert.ok(at <= end);
    const { created_at: _at, ended_at: _end, ...answer } = Object(answers[3]);
    assert.deepEqual(asOnPage(JSON.stringify(shown)), answer);
    const dryRun = JSON.parse(await readFile(join(folder, 'dry-run.json'), 'utf8'));
    assert.deepEqual(dryRun, { matched: 0, runs: [] });
  });
});
