import assert from 'node:assert/strict';
import { describe, onTestFinished, test, vi } from 'vitest';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('section 1: what the service does', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '' } });
  const steps = new RunSteps(service.send);

  describe('as specified', () => {
    test('a run names image, inputs, priority, constraints, retry policy and a topic', async () => {
      const named = {
        image: 'registry.example/tool:1',
        inputs: { text: 'x' },
        priority: 4,
        constraints: { ram_mb: 1, vram_mb: 2, cpu: 3, gpu_id: null },
        retry_policy: { max_attempts: 2 },
        event_delivery: { topic: 'orders' },
      };
      const run = await steps.create(named);
      assert.deepEqual({ ...run, ...named }, run);
    });

    test('a run can be made from a stored template in one of its versions', async () => {
      const template = { id: 'count', version: '1', image: 'counter' };
      assert.equal((await service.send('POST', '/definitions', { body: template })).status, 201);
      const created = await service.send('POST', '/definitions/count/runs', { body: {} });
      assert.equal(created.status, 201);
      assert.deepEqual([created.body.image, created.body.op_definition], ['counter', 'count']);
    });

    test('workers make themselves known by heartbeats with resources and tags', async () => {
      const resources = { cpu_cores: 8, ram_mb: 1024, gpus: [{ id: 0, vram_mb: 2, tags: ['t'] }] };
      const worker = await steps.heartbeat('w-known', { resources, tags: ['fast'] });
      assert.deepEqual([worker.resources, worker.tags], [resources, ['fast']]);
    });

    test('the pool of workers does not survive the process', async () => {
      const first = await startTestApp({ database: service.database });
      await new RunSteps(first.send).heartbeat('w-gone');
      await first.close();
      const second = await startTestApp({ database: service.database });
      assert.deepEqual((await second.send('GET', '/workers')).body, []);
      await second.close();
    });

    test('a worker that asks for work is given a pending run', async () => {
      const run = await steps.assigned({}, 'w-asking');
      assert.deepEqual([run.state, run.execution_summary.worker_id], ['ASSIGNED', 'w-asking']);
    });

    test('the built-in strategy hands the pending run of highest priority to whoever asks', async () => {
      await steps.emptyQueue();
      await steps.create({ priority: 1 });
      const { id } = await steps.create({ priority: 2 });
      await steps.create({ priority: 0 });
      const ops = await steps.claim();
      assert.deepEqual(
        ops.map((op) => op.id),
        [id],
      );
      await steps.emptyQueue();
    });

    test('attempts, timeline, progress, outputs and state are recorded', async () => {
      const { id } = await steps.running({ retry_policy: { max_attempts: 2 } });
      await steps.event(id, 'PROGRESS', undefined, 40);
      await steps.event(id, 'FAILED');
      await steps.claimUntil(id);
      await steps.event(id, 'STARTED', { worker_id: 'w' });
      const run = await steps.event(id, 'COMPLETED', { outputs: { n: 1 } });
      assert.deepEqual([run.state, run.progress, run.outputs], ['COMPLETED', 100, { n: 1 }]);
      assert.deepEqual(
        run.events.map(({ type }: { type: string }) => type),
        ['STARTED', 'PROGRESS', 'FAILED', 'RETRIED', 'STARTED', 'COMPLETED'],
      );
      assert.deepEqual(
        (await steps.attempts(id)).map(({ attempt, state }) => [attempt, state]),
        [
          [1, 'FAILED'],
          [2, 'COMPLETED'],
        ],
      );
    });

    test('a worker counts as active within SERVICE_WORKER_TIMEOUT of its last heartbeat and not after', async () => {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() });
      onTestFinished(() => void vi.useRealTimers());
      const quick = await startTestApp({ database: service.database, env: { SERVICE_WORKER_TIMEOUT: '60' } });
      const worker = await new RunSteps(quick.send).heartbeat('w-quick');
      assert.equal(worker.is_active, true);
      const isActive = async (): Promise<boolean> => (await quick.send('GET', '/workers')).body[0].is_active;
      vi.setSystemTime(Date.parse(worker.last_heartbeat_at) + 59_999);
      assert.equal(await isActive(), true);
      vi.setSystemTime(Date.parse(worker.last_heartbeat_at) + 60_001);
      assert.equal(await isActive(), false);
      await new RunSteps(quick.send).create();
      assert.deepEqual((await quick.send('POST', '/workers/w-quick/claim')).body, { ops: [] });
      await quick.close();
    });

    test('a template of outputs stays with the run for its worker to find', async () => {
      const run = await steps.assigned({ outputs: { result: { upload_url: 'https://x/y' } } });
      assert.deepEqual((await steps.get(run.id)).outputs, { result: { upload_url: 'https://x/y' } });
    });

    test('a late COMPLETED or FAILED is answered with 400 or 409, so that a worker can pass it over', async () => {
      const cancelled = await steps.inState('CANCELLED');
      const foreign = await steps.running();
      for (const type of ['COMPLETED', 'FAILED']) {
        assert.equal((await steps.report(cancelled.id, { type, msg: '' })).status, 400);
        const answer = await steps.report(foreign.id, { type, msg: '' }, { worker: 'another' });
        assert.equal(answer.status, 409);
      }
    });

    test('a worker that looks at its run sees that it was cancelled', async () => {
      const { id } = await steps.running();
      await service.send('POST', `/runs/${id}/cancel`);
      assert.equal((await steps.get(id)).state, 'CANCELLED');
    });
  });

  describe('as settled', () => {
    test('the timeout is 60 seconds unless configured, and heartbeats are told', async () => {
      const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
      const body = { worker_id: 'w-told', resources, tags: [] };
      const answer = await service.send('POST', '/workers/heartbeat', { body });
      assert.equal(answer.headers.get('x-worker-timeout'), '60');
    });
  });
});
