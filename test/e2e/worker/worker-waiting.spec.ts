import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { RunViews } from '../../support/runs/run-views.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { endWorker, ScriptImages } from '../../support/workers/worker-process.js';

const RUNS = 40;

describe('an idle worker', () => {
  let service: ServiceProcess;
  let send: Send;
  let runs: RunViews;
  let images: ScriptImages;

  beforeAll(async () => {
    service = await startService({
      env: { SERVICE_API_KEYS: 'admin:e2e-admin-key-of-the-tests,worker:e2e-worker-key-of-the-tests' },
    });
    send = senderTo(service.url, 'e2e-admin-key-of-the-tests');
    runs = new RunViews(send);
    images = await ScriptImages.make();
    await images.add('nothing', 'true');
  });
  afterAll(async () => {
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  const start = (id: string, env: Readonly<Record<string, string>> = {}) =>
    // Whoever polled would get its first run in an hour.
    images.startWorker({
      url: service.url,
      key: 'e2e-worker-key-of-the-tests',
      id,
      env: { SERVICE_WORKER_TICK: '3600', ...env },
    });

  test('starts each new run because of its creation', async () => {
    const worker = await start('idle');
    await worker.untilOutput(/registered at the service/);
    // Claims that waited to their end, twenty seconds each, would take longer than a test may.
    for (let n = 0; n < RUNS; n++) await runs.untilState(await runs.create('nothing'), 'COMPLETED');
    await endWorker(worker);
  });

  test('ends on SIGTERM while its claim waits, and what is created then is left for others', async () => {
    const worker = await start('leaving');
    await worker.untilOutput(/registered at the service/);
    await runs.untilState(await runs.create('nothing'), 'COMPLETED');
    await endWorker(worker);
    const id = await runs.create('nothing');
    assert.equal((await runs.get(id)).state, 'PENDING');
    const next = await start('next');
    await runs.untilState(id, 'COMPLETED');
    await endWorker(next);
    const { body } = await send('GET', '/workers');
    assert.ok(Array.isArray(body), JSON.stringify(body));
    assert.deepEqual(body, [], 'workers that ended in order are in no list');
  });

  test('gives a run that its shutdown stops back to the queue, and no retry of the user is used up', async () => {
    await images.add('long', 'sleep 600');
    const worker = await start('drained', { SERVICE_WORKER_DRAIN: '2' });
    const id = await runs.create('long');
    await runs.untilState(id, 'RUNNING');
    await endWorker(worker);
    const { state, current_attempt: attempt, execution_summary: summary } = await runs.get(id);
    assert.deepEqual([state, attempt, summary.reclaims], ['PENDING', 2, 1]);
    assert.equal((await send('POST', `/runs/${id}/cancel`)).status, 200);
  });
});
