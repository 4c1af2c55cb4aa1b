import assert from 'node:assert/strict';
import { describe, onTestFinished, test } from 'vitest';
import { Scrape } from '../../support/monitoring/scrape.js';
import { startCluster } from '../../support/programs/server-processes.js';
import { startService, until, type ServiceProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { openTestDatabase } from '../../support/test-database.js';
import { endWorker, isAlive, ScriptImages } from '../../support/workers/worker-process.js';

const KEYS = {
  SERVICE_API_KEYS: 'admin:e2e-admin-key-of-the-tests,worker:e2e-worker-key-of-the-tests',
};
const FOR_EVER = 'while :; do sleep 0.2; done';
const OBEDIENT = 6;

/** A service whose worker and clients may reach it at different addresses. */
interface Place {
  readonly title: string;
  /** The first one serves the worker, the last one the clients. */
  readonly start: () => Promise<[ServiceProcess, ...ServiceProcess[]]>;
}

const PLACES: readonly Place[] = [
  { title: 'a service of one process', start: async () => [await startService({ env: KEYS })] },
  {
    title: 'a service of two processes on one port',
    start: async () => [await startCluster({ env: KEYS })],
  },
  {
    title: 'a service beside the one that takes the cancels',
    start: async () => {
      const database = await openTestDatabase();
      onTestFinished(() => database.close());
      const env = { ...KEYS, DATABASE_URL: database.url };
      return [await startService({ env }), await startService({ env })];
    },
  },
];

/** Sends each request on a connection of its own, so that any process of the service may get it. */
function senderOf({ url }: ServiceProcess): Send {
  const send = senderTo(url, 'e2e-admin-key-of-the-tests');
  return (method, path, request = {}) => send(method, path, { ...request, headers: { Connection: 'close' } });
}

async function cancel(send: Send, id: string, pid: number): Promise<void> {
  const { status, text } = await send('POST', `/runs/${id}/cancel`);
  assert.equal(status, 200, text);
  await until(async () => !(await isAlive(pid)), `program ${pid} of the cancelled run has ended`);
}

/** Waits until the service holds a heartbeat: then the cancel has to end its wait. */
async function untilHeld(service: ServiceProcess): Promise<void> {
  const send = senderOf(service);
  await until(
    async () => (await Scrape.of(send)).value('longshore_waiting_heartbeats') === 1,
    'a heartbeat is held',
  );
}

/** Requests of a run's view that the service has answered. */
async function viewsOf(service: ServiceProcess): Promise<number> {
  const scrape = await Scrape.of(senderOf(service));
  return scrape.value('longshore_http_requests_total', { method: 'GET', route: '/runs/:id' }) ?? 0;
}

describe('a worker with several runs', () => {
  for (const { title, start } of PLACES) {
    test(`of ${title} ends cancelled ones, and fetches each run once`, async () => {
      const services = await start();
      const [near] = services;
      const far = senderOf(services.at(-1) ?? near);
      const images = await ScriptImages.make();
      const worker = await images.startWorker({
        url: near.url,
        key: 'e2e-worker-key-of-the-tests',
        id: 'several',
        env: { SERVICE_WORKER_CPU: String(OBEDIENT + 1) },
      });
      const runs: { readonly id: string; readonly pid: number }[] = [];
      for (let n = 0; n <= OBEDIENT; n += 1) {
        const image = `program-${n}`;
        await images.add(image, n === 0 ? `trap '' TERM; ${FOR_EVER}` : FOR_EVER);
        const { status, text, body } = await far('POST', '/runs', { body: { image } });
        assert.equal(status, 201, text);
        await until(async () => (await images.startsOf(image)).length === 1, `${image} works`);
        const [pid = 0] = await images.startsOf(image);
        runs.push({ id: body.id, pid });
      }

      const [stubborn, ...others] = runs;
      assert.ok(stubborn);
      await untilHeld(near);
      const killed = cancel(far, stubborn.id, stubborn.pid);
      for (const { id, pid } of others) {
        await untilHeld(near);
        await cancel(far, id, pid);
      }
      await killed;

      assert.equal(await viewsOf(near), runs.length);
      await endWorker(worker);
      for (const { id } of runs) assert.equal((await far('GET', `/runs/${id}`)).body.state, 'CANCELLED');
      for (const service of services.toReversed()) assert.equal(await service.stop(), 0);
    });
  }
});
