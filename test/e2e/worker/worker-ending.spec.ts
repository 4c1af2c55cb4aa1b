import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { startTestEngine } from '../../support/images/docker-engine.js';
import { startDockerWorker } from '../../support/images/docker-runtime.js';
import { startService, until, type ServiceProcess, type TestProcess } from '../../support/service-process.js';
import { senderTo, type Send } from '../../support/app/test-app.js';
import { skipFor } from '../../support/skip.js';

const KEYS = { SERVICE_API_KEYS: 'admin:e2e-admin-key-of-the-tests,worker:e2e-worker-key-of-the-tests' };
const RAM_MB = 512;

const forTests = await startTestEngine();

describe(
  'a program that ignores SIGTERM, of a run with an hour of grace that was cancelled',
  skipFor(forTests.skip),
  () => {
    let service: ServiceProcess;
    let worker: TestProcess;
    let send: Send;
    let deaf: string;
    let brief: string;

    beforeAll(async () => {
      deaf = await forTests.engine.publishScript(
        'deaf',
        `trap '' TERM; echo trap-is-set; while :; do sleep 0.2; done`,
      );
      brief = await forTests.engine.publishScript('brief', 'exit 0');
      service = await startService({ env: { ...KEYS, SERVICE_SCHEDULER: 'fit' } });
      send = senderTo(service.url, 'e2e-admin-key-of-the-tests');
      worker = await startDockerWorker(forTests.engine.host, {
        url: service.url,
        key: 'e2e-worker-key-of-the-tests',
        id: 'ending',
        env: {
          SERVICE_WORKER_CPU: '4',
          SERVICE_WORKER_RAM_MB: String(RAM_MB),
          SERVICE_WORKER_MAX_GRACE_S: '3600',
          SERVICE_WORKER_DRAIN: '1',
        },
      });
    });
    afterAll(async () => {
      worker.signal('SIGKILL');
      await service.kill('SIGTERM');
    });

    async function create(body: object): Promise<string> {
      const created = await send('POST', '/runs', { body });
      assert.equal(created.status, 201, created.text);
      return created.body.id;
    }

    const untilState = (id: string, state: string): Promise<void> =>
      until(async () => (await send('GET', `/runs/${id}`)).body.state === state, `run ${id} is ${state}`);

    /** A run in its container that is cancelled and goes on. */
    async function cancelled(): Promise<string> {
      const id = await create({ image: deaf, stop_grace_s: 3600, constraints: { ram_mb: RAM_MB } });
      await untilState(id, 'RUNNING');
      await until(
        async () => (await send('GET', `/runs/${id}/logs`)).text.includes('trap-is-set'),
        'it runs',
      );
      assert.equal((await send('POST', `/runs/${id}/cancel`)).body.state, 'CANCELLED');
      return id;
    }

    test('keeps its memory from other runs, which explain says, until an admin kills it', async () => {
      const id = await cancelled();
      const next = await create({ image: brief, constraints: { ram_mb: RAM_MB } });
      await until(
        async () => (await send('GET', `/runs/${next}/explain`)).body.workers[0]?.ending?.programs === 1,
        'explain names the program',
      );
      // The worker has asked for work since: it has free CPUs.
      await until(
        async () =>
          /"run":"[^"]*".*the run is lost/.test(worker.output) || worker.output.includes('is CANCELLED'),
        'the worker stops the run',
      );
      const { body } = await send('GET', `/runs/${next}/explain`);
      assert.match(body.summary, /; 1 ending program of an ended run holds 512 MB of RAM\.$/);
      const [shown] = (await send('GET', '/workers')).body;
      assert.deepEqual([shown.free.ram_mb, shown.assigned.count], [0, 0]);
      assert.deepEqual([shown.container_engine.name, shown.container_engine.runtime], ['docker', 'runc']);
      assert.equal((await forTests.engine.containerIds()).length, 1);
      assert.equal((await send('GET', `/runs/${next}`)).body.state, 'PENDING');
      assert.equal((await send('POST', `/runs/${id}/cancel`)).status, 400);
      const killed = await send('POST', `/runs/${id}/cancel`, { body: { kill: true } });
      assert.deepEqual([killed.status, killed.body.state], [200, 'CANCELLED']);
      await untilState(next, 'COMPLETED');
      await until(async () => (await forTests.engine.containerIds()).length === 0, 'no container is left');
    });

    test('does not keep its worker from ending when that shuts down', async () => {
      const id = await cancelled();
      await until(
        () => worker.output.split(id).some((text) => text.includes('CANCELLED')),
        'the worker knows',
      );
      worker.signal('SIGTERM');
      assert.deepEqual(await worker.exited, { code: 0, signal: null }, worker.output);
      assert.deepEqual(await forTests.engine.containerIds(), []);
    });
  },
);
