import assert from 'node:assert/strict';
import { availableParallelism } from 'node:os';
import { afterEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { RawWorker } from '../../support/workers/raw-worker.js';
import { RunViews } from '../../support/runs/run-views.js';
import { startService, type ServiceProcess } from '../../support/service-process.js';
import { TcpProxy, type ProxyRoute } from '../../support/postgres/tcp-proxy.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { endWorker, ScriptImages } from '../../support/workers/worker-process.js';
import { skipFor } from '../../support/skip.js';

const TIMEOUT_S = 3;
const INTERVAL_S = 0.3;
const ONE_CORE = availableParallelism() < 2 && 'a worker with one core claims nothing beside its run';

/** A service and a proxy in front of it. */
interface Setting {
  readonly route: ProxyRoute;
  /** Past the proxy. */
  readonly send: Send;
  readonly runs: RunViews;
  /** Through the proxy. */
  readonly url: string;
}

describe('a claim whose answer is lost after the service has handed a run out', () => {
  let service: ServiceProcess;
  let proxy: TcpProxy;

  const startAll = async (timeout: string): Promise<Setting> => {
    service = await startService({
      env: {
        SERVICE_API_KEYS: 'admin:e2e-admin-key-of-the-tests,worker:e2e-worker-key-of-the-tests',
        SERVICE_WORKER_TIMEOUT: timeout,
        SERVICE_REAPER_INTERVAL: String(INTERVAL_S),
      },
    });
    proxy = await TcpProxy.start();
    const route = await proxy.open({ port: Number(new URL(service.url).port) });
    const send = senderTo(service.url, 'e2e-admin-key-of-the-tests');
    return { route, send, runs: new RunViews(send), url: `http://127.0.0.1:${route.port}` };
  };
  afterEach(async () => {
    await proxy.close();
    assert.deepEqual(await service.kill('SIGTERM'), { code: 0, signal: null }, service.output);
  });

  test(
    'is asked again under its key by our worker, which executes the run once',
    skipFor(ONE_CORE),
    async () => {
      const { route, runs, url } = await startAll('60');
      const images = await ScriptImages.make();
      await images.add('quick', 'true');
      const worker = await images.startWorker({ url, key: 'e2e-worker-key-of-the-tests', id: 'ours' });
      await worker.untilOutput(/registered at the service/);
      // Its claim may wait for 20 s. The first run is the answer to the one that was sent before; the next loses its own.
      await sleep(500);
      await route.misbehave({ cutAfter: 100 });
      const first = await runs.create('quick');
      await worker.untilOutput(/claimed a run/);
      const second = await runs.create('quick');
      await runs.untilState(second, 'ASSIGNED');
      await worker.untilOutput(/no answer to the claim/);
      assert.deepEqual(await images.startsOf('quick'), []);
      await route.misbehave({});
      for (const id of [first, second]) {
        await runs.untilState(id, 'COMPLETED');
        assert.deepEqual(await runs.timeline(id), ['1 STARTED', '1 COMPLETED']);
      }
      assert.equal((await images.startsOf('quick')).length, 2);
      await endWorker(worker);
    },
  );

  test('is taken back from a living worker without keys that never names the run, and executed then', async (t) => {
    const { route, runs, send, url } = await startAll(String(TIMEOUT_S));
    const worker = await RawWorker.start(send, 'keyless', 250);
    const holder = await RawWorker.start(send, 'holder', 250);
    const held = await runs.create('held');
    assert.deepEqual(await holder.claim(), [held]);
    const id = await runs.create('stranded');
    await route.misbehave({ cutAfter: 100 });
    const lost = senderTo(url, 'e2e-admin-key-of-the-tests');
    await assert.rejects(lost('POST', '/workers/keyless/claim'));
    await route.misbehave({});
    const stranded = await runs.get(id);
    assert.deepEqual([stranded.state, stranded.execution_summary.worker_id], ['ASSIGNED', 'keyless']);
    const again = await runs.until(id, 'is taken back', (run) => run.current_attempt === 2);
    const [loss] = again.events;
    const afterS = (Date.parse(loss.t) - Date.parse(stranded.execution_summary.assigned_at)) / 1000;
    await t.annotate(`taken back after ${afterS} s`);
    assert.ok(afterS >= TIMEOUT_S, `taken back after ${afterS} s`);
    assert.deepEqual(await worker.claim(5), [id]);
    assert.equal((await worker.report(id, 2, 'STARTED', { worker_id: worker.id })).status, 200);
    assert.equal((await worker.report(id, 2, 'COMPLETED')).status, 200);
    assert.deepEqual(await runs.timeline(id), ['1 RECLAIMED', '2 STARTED', '2 COMPLETED']);
    const kept = await runs.get(held);
    assert.deepEqual([kept.state, kept.current_attempt], ['ASSIGNED', 1], 'a run that is named stays');
    worker.end();
    holder.end();
  });
});
