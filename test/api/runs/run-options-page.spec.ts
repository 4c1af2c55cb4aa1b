import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { promisify } from 'node:util';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { until } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('the commands of docs/run-options.md', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let folder: string;
  let blocks: DocBlocks;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'run-options-page-'));
    blocks = await DocBlocks.read('docs/run-options.md');
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

  test('create a run with an environment and a command, for a worker that announces both', async () => {
    const id = await create('environment');
    await steps.heartbeat('plain');
    assert.deepEqual(await steps.claim('plain'), []);
    await steps.heartbeat('able', { capabilities: ['env', 'command'] });
    const [op] = await steps.claim('able');
    assert.deepEqual(
      [op.id, op.env, op.command, op.args],
      [id, { GREETING: 'hello' }, ['sh', '-c'], ['echo "$GREETING"']],
    );
  });

  test('create a run with a working directory and a user, for a worker that can set both', async () => {
    const id = await create('container');
    await steps.heartbeat('without', { capabilities: ['command'] });
    assert.deepEqual(await steps.claim('without'), []);
    await steps.heartbeat('with', { capabilities: ['command', 'container'] });
    const [op] = await steps.claim('with');
    assert.deepEqual([op.id, op.workdir, op.user], [id, '/work', '1000:1000']);
  });

  test('create a run with time to stop, for a worker that gives it', async () => {
    const id = await create('stop');
    assert.deepEqual(await steps.claim('without'), []);
    const [op] = await steps.claim('with');
    assert.deepEqual([op.id, op.stop_grace_s], [id, 120]);
  });

  test('create a run in a network, for a worker that has it', async () => {
    const id = await create('network');
    await steps.heartbeat('offline', { capabilities: ['network:none'] });
    assert.deepEqual(await steps.claim('offline'), []);
    await steps.heartbeat('online', { capabilities: ['network:none', 'network:db'] });
    const [op] = await steps.claim('online');
    assert.deepEqual([op.id, op.network], [id, 'db']);
  });

  test('create a run with all variables of two secrets, for a worker that can read them', async () => {
    const id = await create('secrets');
    const capabilities = ['env', 'command', 'secrets'];
    await steps.heartbeat('one-by-one', { capabilities });
    assert.deepEqual(await steps.claim('one-by-one'), []);
    await steps.heartbeat('all', { capabilities: [...capabilities, 'secrets_from'] });
    const [op] = await steps.claim('all');
    assert.deepEqual(
      [op.id, op.secrets_from],
      [id, [{ secret: 's3-credentials' }, { secret: 'database', prefix: 'DB_' }]],
    );
  });

  test('create a run for workers with tags', async () => {
    const id = await create('selector');
    await steps.heartbeat('plain');
    assert.deepEqual(await steps.claim('plain'), []);
    const { body } = await service.send('GET', `/runs/${id}/explain`);
    assert.match(body.summary, /gpu/);
    await steps.heartbeat('tagged', { tags: ['eu', 'gpu', 'fast'] });
    assert.equal((await steps.claim('tagged'))[0]?.id, id);
  });

  test('create runs of which one at a time is in execution', async () => {
    const first = await create('concurrency');
    const second = await create('concurrency');
    await steps.heartbeat();
    assert.equal((await steps.claim())[0]?.id, first);
    assert.deepEqual(await steps.claim(), []);
    const { body } = await service.send('GET', `/runs/${second}/explain`);
    assert.ok(body.summary.includes(first) || JSON.stringify(body.concurrency).includes(first));
    await steps.event(first, 'COMPLETED');
    assert.equal((await steps.claim())[0]?.id, second);
  });

  test('create a run that starts later', async () => {
    const id = await create('start');
    await steps.heartbeat();
    const [op] = await until(
      () => steps.claim(),
      (ops) => ops.length > 0,
    );
    assert.equal(op.id, id);
    const { start_at: startAt, execution_summary: summary } = await steps.get(id);
    assert.ok(summary.assigned_at >= startAt);
  });

  test('create a run that only some failures retry', async () => {
    const id = await create('retry');
    await steps.heartbeat();
    await steps.claimUntil(id);
    const retried = await steps.event(id, 'FAILED', { cause: 'exit', exit_code: 104 });
    assert.equal(retried.state, 'PENDING');
    await steps.claimUntil(id);
    const failed = await steps.event(id, 'FAILED', { cause: 'exit', exit_code: 1 });
    assert.deepEqual([failed.state, failed.current_attempt], ['FAILED', 2]);
  });
});
