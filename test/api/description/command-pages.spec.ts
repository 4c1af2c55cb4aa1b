import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { DocBlocks } from '../../support/docs/doc-blocks.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g;
const OPTIONS = 'docs/run-options.md';
const MOUNTS = 'docs/mounts-and-files.md';
const RESOURCES = 'docs/resources.md';

/** Blocks that create a run each: what the run shows, and the capabilities of the workers that may get it. */
const CREATIONS: readonly (readonly [
  page: string,
  block: string,
  shown: object,
  needed: readonly string[],
])[] = [
  [
    OPTIONS,
    'environment',
    { env: { GREETING: 'hello' }, command: ['sh', '-c'], args: ['echo "$GREETING"'] },
    ['command', 'env'],
  ],
  [OPTIONS, 'container', { workdir: '/work', user: '1000:1000' }, ['command', 'container']],
  [OPTIONS, 'stop', { stop_grace_s: 120 }, ['command', 'container']],
  [
    OPTIONS,
    'ulimits',
    { ulimits: { nofile: 65_536, memlock: -1 } },
    ['command', 'ulimit:memlock:unlimited', 'ulimit:nofile:65536'],
  ],
  [OPTIONS, 'network', { network: 'db' }, ['network:db']],
  [
    OPTIONS,
    'secrets',
    { secrets_from: [{ secret: 's3-credentials' }, { secret: 'database', prefix: 'DB_' }] },
    ['command', 'env', 'secrets_from'],
  ],
  [OPTIONS, 'selector', { selector: ['gpu', 'eu'] }, []],
  [OPTIONS, 'concurrency', { concurrency: { key: 'customer-17', limit: 1 } }, []],
  [OPTIONS, 'on-limit', { concurrency: { key: 'preview-17', limit: 1, on_limit: 'cancel_oldest' } }, []],
  [OPTIONS, 'start', {}, []],
  [
    OPTIONS,
    'retry',
    { retry_policy: { max_attempts: 3, retry_on: ['oom', 'timeout', 'exit:75', 'exit:100-110'] } },
    [],
  ],
  [
    MOUNTS,
    'mounts',
    {
      mounts: [
        { volume: 'datasets', path: '/data', read_only: true },
        { volume: 'results', path: '/out', sub_path: 'team-a/${run.id}' },
        { scratch_mb: 500_000, path: '/scratch' },
      ],
    },
    ['command', 'container', 'files', 'scratch', 'volume:datasets', 'volume:results:rw'],
  ],
  [
    MOUNTS,
    'files',
    {
      files: {
        '/etc/job/run.sh': { content: '#!/bin/sh\nexec backup --key "$KEY_FILE"\n', mode: '0555' },
        '/run/keys/gcp.json': { secret: 'gcp-key', env: 'KEY_FILE', mode: '0400' },
      },
    },
    ['command', 'files'],
  ],
  [
    RESOURCES,
    'share',
    { constraints: amounts({ cpu: 1, cpu_millis: 500, cpu_limit_millis: 2000, ram_mb: 256 }) },
    ['cpu_millis'],
  ],
  [
    RESOURCES,
    'gpus',
    { constraints: amounts({ gpus: 2, vram_mb: 40_000, gpu_selector: ['a100'], shm_mb: 8192 }) },
    ['gpus', 'shm'],
  ],
  [
    RESOURCES,
    'grow',
    {
      constraints: amounts({ cpu: 2, ram_mb: 1024 }),
      retry_policy: { max_attempts: 5, grow: { ram_mb: { factor: 2, max: 10_000 } } },
    },
    [],
  ],
  [
    RESOURCES,
    'definition',
    { constraints: amounts({ ram_mb: 16_000, cpu: 2, gpus: 4, cpu_millis: 1500 }) },
    ['cpu_millis', 'gpus'],
  ],
];

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

describe('the commands of', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'command-pages-'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  /** Runs a command. @returns what it prints */
  const run = async (command = ''): Promise<string> => {
    const env = { ...process.env, URL: service.url, KEY: KEYS.admin };
    const options = { cwd: folder, env, timeout: 800_000 };
    return (await promisify(execFile)('bash', ['-euc', command], options)).stdout;
  };
  const read = async (file: string): Promise<any> => JSON.parse(await readFile(join(folder, file), 'utf8'));

  test.for(CREATIONS)(
    '%s: the block %s creates such a run, for workers that are able to execute it',
    async ([page, block, shown, needed]) => {
      await run((await DocBlocks.read(page)).one(block));
      const created = await read('run.json');
      // The id of the run stands in the folder of a mount.
      const expected = JSON.parse(JSON.stringify(shown).replace('${run.id}', created.id));
      assert.deepEqual(created, { ...created, ...expected });
      assert.equal(created.start_at !== null, block === 'start');
      const { requirements } = bodyOf(
        await service.send('GET', `/runs/${created.id}/explain`),
        'RunExplanation',
      );
      assert.deepEqual(requirements.capabilities.toSorted(), needed);
      assert.deepEqual(requirements.selector, created.selector);
    },
  );

  test('docs/labels.md create a run with a name and labels, find it, change both, and wait for its end', async () => {
    const blocks = await DocBlocks.read('docs/labels.md');
    const follow = async (block: string, file: string): Promise<any> => {
      await run(blocks.one(block));
      return read(file);
    };
    const { id } = await follow('create', 'run.json');
    await steps.create({ name: 'nightly of others', labels: { team: 'assess' } });
    const found = await read('found.json');
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
    for (const each of idsOf((await service.send('GET', '/runs?label=team=assess')).body))
      await service.send('PATCH', `/runs/${each}`, { body: { state: 'FAILED' } });
    assert.equal(idsOf(await follow('failed', 'failed.json')).at(-1), id);
    const ended = await follow('wait', 'run.json');
    assert.deepEqual([ended.id, ended.state], [id, 'FAILED']);
  });

  test('docs/bulk.md create, claim, end and cancel runs, and answer what stands there', async () => {
    const blocks = await DocBlocks.read('docs/bulk.md');
    const [create, claim, report, cancel, change, ...others] = blocks.all();
    const answers = blocks.all('', 'json').map((text) => JSON.parse(text));
    assert.deepEqual([others.length, answers.length], [0, 4]);
    for (const { id } of (await service.send('GET', '/runs?limit=100')).body.data)
      await service.send('PATCH', `/runs/${id}`, { body: { state: 'COMPLETED' } });

    const created = await run(create);
    assert.deepEqual(asOnPage(created), answers[0]);
    const { id } = JSON.parse(created).results[0];
    await run(claim);
    assert.deepEqual(
      (await read('claim.json')).ops.map((op: any) => op.id),
      [id],
    );
    assert.deepEqual(JSON.parse(await run(report)), answers[1]);
    const { state, outputs } = await steps.get(id);
    assert.deepEqual([state, outputs], ['COMPLETED', { words: 2 }]);
    assert.deepEqual(JSON.parse(await run(cancel)), answers[2]);

    const { created_at: at, ended_at: end, ...shown } = JSON.parse(await run(change));
    assert.ok(at <= end);
    const { created_at: _at, ended_at: _end, ...answer } = answers[3];
    assert.deepEqual(asOnPage(JSON.stringify(shown)), answer);
    assert.deepEqual(await read('dry-run.json'), {
      matched: 0,
      by_state: { PENDING: 0, ASSIGNED: 0, RUNNING: 0, COMPLETED: 0, FAILED: 0, CANCELLED: 0 },
      runs: [],
    });
  });
});

/** All amounts of a run that asks for some. */
function amounts(asked: object): object {
  return { ram_mb: 0, vram_mb: 0, cpu: 0, gpu_id: null, ...asked };
}

function idsOf({ data }: { readonly data: readonly { readonly id: string }[] }): string[] {
  return data.map(({ id }) => id);
}

/** The answer with the id of the page in the place of any other. */
function asOnPage(text: string): unknown {
  return JSON.parse(text.replaceAll(UUID, '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b'));
}
