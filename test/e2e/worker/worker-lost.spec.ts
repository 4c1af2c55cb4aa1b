import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { RunViews } from '../../support/runs/run-views.js';
import { senderTo } from '../../support/app/test-app.js';
import { endWorker, ScriptImages, untilFile } from '../../support/workers/worker-process.js';

const TIMEOUT_S = 3;
const TOPIC = 'lost';

describe('a worker that is killed in the middle of its runs', () => {
  let service: ServiceProcess;
  let runs: RunViews;
  let images: ScriptImages;

  beforeAll(async () => {
    service = await startService({
      env: {
        SERVICE_API_KEYS:
          'admin:e2e-admin-key-of-the-tests,worker@lost+healthy+returning:e2e-worker-key-of-the-tests',
        SERVICE_WORKER_TIMEOUT: String(TIMEOUT_S),
        SERVICE_REAPER_INTERVAL: '0.5',
      },
    });
    runs = new RunViews(senderTo(service.url, 'e2e-admin-key-of-the-tests'));
    images = await ScriptImages.make();
  });
  afterAll(async () => {
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  const start = (id: string) =>
    images.startWorker({ url: service.url, key: 'e2e-worker-key-of-the-tests', id });
  const create = (image: string, priority: number) =>
    runs.create(image, { priority, event_delivery: { topic: TOPIC } });

  test('has each of its runs executed by another one, once, and is not given up early', async (t) => {
    const gate = images.gate('long');
    await images.add('long', untilFile(gate.path));
    await images.add('short', 'sleep 0.1; echo "{}" >"$SERVICE_OUTPUT_PATH"');
    const lost = await start('lost');
    const held = [await create('long', 9)];
    await runs.untilState(held[0] ?? '', 'RUNNING');
    const others = await Promise.all(Array.from({ length: 12 }, () => create('short', 1)));
    // Its second core works through the short ones; the kill comes while it does.
    await runs.until(others[0] ?? '', 'has ended', ({ state }) => state === 'COMPLETED');
    lost.signal('SIGKILL');
    await lost.exited;
    const healthy = await start('healthy');
    for (const id of held)
      await runs.until(
        id,
        'is with the other',
        (run) => run.current_attempt === 2 && run.state === 'RUNNING',
      );
    await gate.open();

    const recoveries: number[] = [];
    let reclaims = 0;
    for (const id of [...held, ...others]) {
      const run = await runs.untilState(id, 'COMPLETED', 'FAILED');
      const timeline = await runs.timeline(id);
      const losses = run.events.filter(({ type }: { type: string }) => type === 'RECLAIMED');
      reclaims += losses.length;
      const whole = ['1 STARTED', '1 COMPLETED'];
      const reclaimed = ['1 RECLAIMED', '2 STARTED', '2 COMPLETED'];
      const expected = losses.length === 0 ? [whole] : [reclaimed, ['1 STARTED', ...reclaimed]];
      assert.ok(
        expected.some((one) => JSON.stringify(one) === JSON.stringify(timeline)),
        timeline.join(', '),
      );
      for (const { t: at, payload } of losses) {
        assert.equal(payload.worker_id, 'lost');
        recoveries.push((Date.parse(at) - Date.parse(payload.last_heartbeat_at)) / 1000);
      }
    }
    assert.ok(reclaims >= 1 && reclaims <= 4, `${reclaims} runs were in its hands`);
    await t.annotate(`runs reclaimed: ${reclaims}; claimable after ${recoveries.join(', ')} s of silence`);
    assert.ok(Math.min(...recoveries) >= TIMEOUT_S, `nobody is given up early: ${recoveries.join(', ')} s`);
    assert.equal((await images.startsOf('long')).length, 2);
    await endWorker(healthy);
  });

  test('takes its own run again when it comes back under the same id', async () => {
    const gate = images.gate('again');
    await images.add('again', untilFile(gate.path));
    const first = await start('returning');
    const id = await create('again', 1);
    await runs.untilState(id, 'RUNNING');
    first.signal('SIGKILL');
    await first.exited;
    const second = await start('returning');
    await runs.until(id, 'is taken again', (run) => run.current_attempt === 2 && run.state === 'RUNNING');
    await gate.open();
    await runs.untilState(id, 'COMPLETED');
    assert.deepEqual(await runs.timeline(id), ['1 STARTED', '1 RECLAIMED', '2 STARTED', '2 COMPLETED']);
    await endWorker(second);
  });
});
