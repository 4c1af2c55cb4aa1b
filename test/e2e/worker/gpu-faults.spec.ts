import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { Schemas } from '@longshore/client';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { startDockerWorker } from '../../support/images/docker-runtime.js';
import {
  makeDataDir,
  startService,
  until,
  type ServiceProcess,
  type TestProcess,
} from '../../support/service-process.js';
import { skipFor } from '../../support/skip.js';

const ADMIN_KEY = 'e2e-admin-key-of-the-tests';
const WORKER_KEY = 'e2e-worker-key-of-the-tests';
const MISMATCH = 'initialization error: nvml error: driver/library version mismatch';

const good = await startTestEngine({ hasGpus: true });
const bare = await startTestEngine();

describe('runs with GPUs beside a machine that cannot give them', skipFor(good.skip || bare.skip), () => {
  let service: ServiceProcess;
  let send: Send;
  let folder: string;
  const workers: TestProcess[] = [];

  beforeAll(async () => {
    folder = await makeDataDir();
    mkdirSync(join(folder, 'bin'));
    const smi = join(folder, 'bin', 'nvidia-smi');
    writeFileSync(smi, '#!/bin/sh\necho "0, 81920, NVIDIA A100-SXM4-80GB"\n');
    chmodSync(smi, 0o755);
    const env = { SERVICE_API_KEYS: `admin:${ADMIN_KEY},worker:${WORKER_KEY}` };
    service = await startService({ env });
    send = senderTo(service.url, ADMIN_KEY);
  });

  afterAll(async () => {
    for (const worker of workers) worker.signal('SIGTERM');
    for (const worker of workers)
      assert.deepEqual(await worker.exited, { code: 0, signal: null }, worker.output);
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  async function start(id: string, host: string): Promise<string> {
    const health = join(folder, `${id}.health`);
    const env = {
      PATH: `${join(folder, 'bin')}:${process.env['PATH'] ?? ''}`,
      SERVICE_WORKER_HEALTH_FILE: health,
    };
    workers.push(await startDockerWorker(host, { url: service.url, key: WORKER_KEY, id, env }));
    await until(async () => (await workerOf(id)) !== undefined, `worker ${id} is registered`);
    return health;
  }

  const workerOf = async (id: string): Promise<Schemas['Worker'] | undefined> =>
    (await send('GET', '/workers')).body.find((worker: Schemas['Worker']) => worker.id === id);

  async function create(image: string, more: object = { constraints: { gpus: 1 } }): Promise<string> {
    const { body, status, text } = await send('POST', '/runs', { body: { image, ...more } });
    assert.equal(status, 201, text);
    return body.id;
  }

  const stateOf = async (id: string): Promise<string> => (await send('GET', `/runs/${id}`)).body.state;

  const ended = (ids: readonly string[]): Promise<void> =>
    until(
      async () => (await Promise.all(ids.map(stateOf))).every((state) => state === 'COMPLETED'),
      'all runs are COMPLETED',
    );

  /** Attempts that the worker had of the runs. */
  async function asked(id: string, runs: readonly string[]): Promise<number> {
    const attempts = await Promise.all(
      runs.map(async (run) => (await send('GET', `/runs/${run}/attempts`)).body),
    );
    return attempts.flat().filter((attempt) => attempt.execution_summary.worker_id === id).length;
  }

  test('an engine without a driver for GPUs: its worker offers none, says why, and takes other runs', async () => {
    const image = await bare.engine.publishScript('gpu-bare', 'echo done');
    const health = await start('bare', bare.engine.host);
    const said = (await workerOf('bare'))?.unable;
    assert.deepEqual(
      said?.map(({ ability }) => ability),
      ['gpus'],
    );
    assert.match(said[0]?.message ?? '', /^could not select device driver "" with capabilities: \[\[gpu\]\]/);
    assert.deepEqual((await workerOf('bare'))?.resources.gpus, []);
    await until(
      async () =>
        existsSync(health) &&
        /^unable gpus: could not select device driver/m.test(readFileSync(health, 'utf8')),
      'the health file says so',
    );
    const metrics = (await send('GET', '/metrics')).text;
    assert.match(metrics, /^longshore_workers_unable\{ability="gpus"\} 1$/m);

    const waiting = await create(image);
    await ended([await create(image, {})]);
    assert.equal(await stateOf(waiting), 'PENDING');
    const { summary, workers: judged } = (await send('GET', `/runs/${waiting}/explain`)).body;
    assert.match(
      summary,
      /no active worker has a GPU: worker 'bare' is unable to provide GPUs \(could not select device driver/,
    );
    assert.equal(judged[0].unable[0].ability, 'gpus');
    await send('POST', `/runs/${waiting}/cancel`);
  });

  test('ten runs beside one good worker all end there, when the hook of the other begins to fail', async () => {
    const image = await good.engine.publishScript('gpu-good', 'echo "$NVIDIA_VISIBLE_DEVICES"');
    await start('failing', good.engine.host);
    await ended([await create(image)]);
    good.engine.failGpus(MISMATCH);
    const runs = await Promise.all(Array.from({ length: 10 }, () => create(image)));
    await until(
      async () =>
        ((await workerOf('failing'))?.unable ?? []).some(({ message }) => message.includes(MISMATCH)),
      'the worker says why it offers no GPUs',
    );
    const plain = await create(image, {});
    await ended([plain]);
    assert.deepEqual(new Set(await Promise.all(runs.map(stateOf))), new Set(['PENDING']));

    // The same engine, whose hook works again, under a second worker.
    good.engine.failGpus(null);
    await start('good', good.engine.host);
    await ended(runs);
    assert.ok((await asked('failing', runs)) <= 3, `asked ${await asked('failing', runs)} times`);
    for (const run of runs) {
      const lost = (await send('GET', `/runs/${run}/events`)).body.events.filter(
        (event: { readonly type: string }) => event.type === 'FAILED',
      );
      for (const { payload } of lost) assert.equal(payload.unable, 'gpus');
    }
  });
});
