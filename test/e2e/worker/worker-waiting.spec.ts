import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { RunViews } from '../../support/runs/run-views.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { endWorker, ScriptImages } from '../../support/workers/worker-process.js';

const RUNS = 40;

describe('an idle worker', { timeout: 300_000 }, () => {
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

  test('starts a new run within milliseconds of its creation', async (t) => {
    const worker = await start('idle');
    await worker.untilOutput(/registered at the service/);
    const claimed: number[] = [];
    const started: number[] = [];
    for (let n = 0; n < RUNS; n++) {
      const id = await runs.create('nothing');
      const run = await runs.untilState(id, 'COMPLETED');
      const { createdAt, execution_summary: summary } = run;
      claimed.push(Date.parse(summary.assigned_at) - Date.parse(createdAt));
      started.push(Date.parse(summary.started_at) - Date.parse(createdAt));
    }
    await t.annotate(`created to ASSIGNED: ${quantiles(claimed)}; created to STARTED: ${quantiles(started)}`);
    assert.ok(median(claimed) <= 250, `ASSIGNED after ${quantiles(claimed)}`);
    assert.ok(median(started) <= 1000, `STARTED after ${quantiles(started)}`);
    await endWorker(worker);
  });

  test('ends at once on SIGTERM while its claim waits, and what is created then is left for others', async () => {
    const worker = await start('leaving');
    await worker.untilOutput(/registered at the service/);
    await runs.untilState(await runs.create('nothing'), 'COMPLETED');
    const toldAt = performance.now();
    await endWorker(worker);
    const tookMs = performance.now() - toldAt;
    assert.ok(tookMs < 5000, `it ended after ${tookMs} ms; its claim would have waited for 20 s`);
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

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? NaN;
}

function quantiles(values: readonly number[]): string {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
  return `p50 ${at(0.5)} ms, p90 ${at(0.9)} ms, max ${at(1)} ms`;
}
