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

const GPUS = [0, 1, 2].map((id) => ({ id, vram_mb: 80_000, tags: ['a100'] }));
const MACHINE = { resources: { cpu_cores: 8, ram_mb: 64_000, gpus: GPUS } };

describe('the commands of docs/resources.md', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'fit' } });
  const steps = new RunSteps(service.send);
  let folder: string;
  let blocks: DocBlocks;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'resources-page-'));
    blocks = await DocBlocks.read('docs/resources.md');
    await steps.heartbeat('plain', MACHINE);
  });
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true });
  });

  /** Runs the block with the name. @returns the run that it creates */
  const create = async (name: string): Promise<any> => {
    const env = { ...process.env, URL: service.url, KEY: KEYS.admin };
    await promisify(execFile)('bash', ['-euc', blocks.one(name)], { cwd: folder, env, timeout: 800_000 });
    return JSON.parse(await readFile(join(folder, 'run.json'), 'utf8'));
  };

  test('create a run with half a CPU, for a worker that can limit it', async () => {
    const run = await create('share');
    assert.deepEqual([run.constraints.cpu, run.constraints.cpu_millis], [1, 500]);
    assert.deepEqual(await steps.claim('plain'), []);
    await steps.heartbeat('sharing', { ...MACHINE, capabilities: ['cpu_millis'] });
    const [op] = await steps.claim('sharing');
    assert.deepEqual([op.id, op.constraints], [run.id, run.constraints]);
  });

  test('create a run with two GPUs for itself, for a worker that has such ones', async () => {
    const { id } = await create('gpus');
    assert.deepEqual(await steps.claim('plain'), []);
    await steps.heartbeat('able', { ...MACHINE, capabilities: ['gpus', 'shm'] });
    const [op] = await steps.claim('able');
    assert.deepEqual([op.id, op.constraints.gpu_id, op.constraints.gpu_ids], [id, 0, [0, 1]]);
  });

  test('create a run that has more RAM after an attempt that exceeded it', async () => {
    const { id } = await create('grow');
    for (const ramMb of [1024, 2048, 4096, 8192, 10_000]) {
      const [op] = await steps.claim('plain');
      assert.deepEqual([op.id, op.constraints.ram_mb], [id, ramMb]);
      await steps.event(id, 'FAILED', { cause: 'oom', exit_code: 137 });
    }
    const { state, execution_summary: summary } = await steps.get(id);
    assert.deepEqual([state, summary.asked_ram_mb], ['FAILED', 1024]);
  });

  test('create a run of a definition with other constraints', async () => {
    const { constraints } = await create('definition');
    assert.deepEqual(constraints, {
      ram_mb: 16_000,
      vram_mb: 0,
      cpu: 2,
      gpu_id: null,
      gpus: 4,
      cpu_millis: 1500,
    });
  });
});
