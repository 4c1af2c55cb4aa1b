import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { addExecutions } from '../../support/runs/executions.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { issueKey } from '../../support/app/api-keys.js';
import { KEYS, type TestAnswer } from '../../support/app/test-app.js';
import { until } from '../../support/app/passing-time.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const reported = (id: string) => ({ id, image: 'image', inputs: {}, constraints: {} });

for (const kind of ['memory', 'shared']) {
  describe(`control of workers, pool ${kind}`, () => {
    const env = { SERVICE_WORKER_POOL: kind };
    const service = useTestApp({ env });
    const steps = new RunSteps(service.send);

    const post = (id: string, what: string, key?: string): Promise<TestAnswer> =>
      service.send('POST', `/workers/${encodeURIComponent(id)}/${what}`, key === undefined ? {} : { key });
    const remove = (id: string, key: string = KEYS.worker): Promise<TestAnswer> =>
      service.send('DELETE', `/workers/${encodeURIComponent(id)}`, { key });
    // oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
    const listed = async (id: string, from = service): Promise<any> => {
      const all: { readonly id: string }[] = bodyOf(await from.send('GET', '/workers'), 'Workers');
      return all.find((worker) => worker.id === id);
    };

    describe('removing a worker', () => {
      test('takes it from the list, however often, until its next heartbeat', async () => {
        const id = 'host:8080/leaving';
        await steps.heartbeat(id);
        for (const key of [KEYS.worker, KEYS.admin]) {
          const { status, text } = await remove(id, key);
          assert.deepEqual([status, text], [204, '']);
          assert.equal(await listed(id), undefined);
        }
        assert.deepEqual(await steps.claim(id), []);
        await steps.heartbeat(id);
        assert.notEqual(await listed(id), undefined);
      });

      test('is refused while it holds runs', async () => {
        await steps.emptyQueue('idle');
        const first = await steps.running({}, 'busy');
        const second = await steps.assigned({}, 'busy');
        assertError(await remove('busy'), 409, "Worker 'busy' still holds 2 runs");
        await steps.event(second.id, 'COMPLETED');
        assertError(await remove('busy'), 409, "Worker 'busy' still holds 1 run");
        assert.notEqual(await listed('busy'), undefined);
        await steps.event(first.id, 'COMPLETED');
        assert.equal((await remove('busy')).status, 204);
      });

      test('is for its own keys: one that is bound to another worker is refused', async () => {
        const { key } = await issueKey(service, ['worker'], { worker_ids: ['other-*'] });
        await steps.heartbeat('mine');
        assertError(await remove('mine', key), 403, "API key is not bound to worker 'mine'");
        assert.equal((await remove('other-1', key)).status, 204);
        assertError(await remove('mine', KEYS.client), 403, "API key lacks scope 'worker'");
        assert.notEqual(await listed('mine'), undefined);
      });
    });

    test('the list says which runs are assigned to a worker, whatever it last reported', async () => {
      await steps.emptyQueue('idle');
      const [first, second] = [await steps.running({}, 'lost'), await steps.assigned({}, 'lost')];
      await steps.heartbeat('lost', { running_ops: [reported(first.id), reported(second.id)] });
      assert.deepEqual((await listed('lost')).assigned, { count: 2, ids: [first.id, second.id] });
      await service.send('PATCH', `/runs/${first.id}`, { body: { state: 'PENDING' } });
      await steps.heartbeat('taker');
      assert.deepEqual(
        (await steps.claim('taker')).map(({ id }) => id),
        [first.id],
      );
      const worker = await listed('lost');
      assert.deepEqual(worker.assigned, { count: 1, ids: [second.id] });
      assert.equal(worker.running_ops.length, 2);
      assert.deepEqual((await listed('taker')).assigned, { count: 1, ids: [first.id] });
      for (const { id } of [first, second]) await service.send('POST', `/runs/${id}/cancel`);
    });

    describe('drain and resume', () => {
      test('answer with the worker, which is shown as draining until it is resumed', async () => {
        const id = 'host:8080/w';
        const { draining } = await steps.heartbeat(id);
        assert.equal(draining, false);
        for (const [what, expected] of [
          ['drain', true],
          ['drain', true],
          ['resume', false],
          ['resume', false],
        ] as const) {
          const worker = bodyOf(await post(id, what), 'WorkerWithFree');
          assert.equal(worker.draining, expected);
          assert.deepEqual(await listed(id), worker);
          assert.equal((await steps.heartbeat(id)).draining, expected);
        }
      });

      test('a draining worker claims nothing and keeps what it has; resumed, it claims again', async () => {
        await steps.emptyQueue();
        const held = await steps.running({}, 'w');
        const { id } = await steps.create();
        await post('w', 'drain');
        assert.deepEqual(await steps.claim('w'), []);
        await steps.heartbeat('w');
        assert.deepEqual(await steps.claim('w'), []);
        assert.equal((await steps.get(id)).state, 'PENDING');
        assert.equal((await steps.event(held.id, 'COMPLETED')).state, 'COMPLETED');
        await post('w', 'resume');
        assert.deepEqual(
          (await steps.claim('w')).map((op) => op.id),
          [id],
        );
      });

      test('are 404 for a worker that was never seen, and leave nothing behind', async () => {
        for (const what of ['drain', 'resume']) {
          assertError(await post('nobody/1', what), 404, `Worker 'nobody/1' not found`);
          assertError(await post('no worker id', what), 404, `Worker 'no worker id' not found`);
        }
        assert.equal((await steps.heartbeat('nobody/1')).draining, false);
      });
    });

    describe('free resources', () => {
      const resources = {
        cpu_cores: 8,
        ram_mb: 1000,
        gpus: [
          { id: 1, vram_mb: 600, tags: [] },
          { id: 0, vram_mb: 400, tags: [] },
        ],
      };

      test('are less what its runs take until they end, or their worker no longer names their programs', async () => {
        await steps.emptyQueue();
        await steps.heartbeat('busy', { resources, running_ops: [] });
        const taken = [];
        for (const constraints of [
          { cpu: 2, ram_mb: 300 },
          { cpu: 1, ram_mb: 1, vram_mb: 100 },
        ]) {
          const { id } = await steps.create({ constraints });
          await steps.claimUntil(id, 'busy');
          taken.push(id);
        }
        await service.dataSource.query('update runs set gpu_id = 1 where id = $1', [taken[1]]);
        await addExecutions(service.dataSource);
        await steps.event(String(taken[0]), 'STARTED', { worker_id: 'busy' });
        const expected = { cpu_cores: 5, ram_mb: 699, gpus: [500, 400] };
        const check = async (worker: { free: typeof resources }): Promise<void> => {
          const { cpu_cores: cpu, ram_mb: ram, gpus } = worker.free;
          assert.deepEqual({ cpu_cores: cpu, ram_mb: ram, gpus: gpus.map((gpu) => gpu.vram_mb) }, expected);
        };
        await check(await listed('busy'));
        await check(bodyOf(await post('busy', 'drain'), 'WorkerWithFree'));
        await check(bodyOf(await post('busy', 'resume'), 'WorkerWithFree'));
        await steps.event(String(taken[0]), 'COMPLETED');
        Object.assign(expected, { cpu_cores: 7, ram_mb: 999 });
        await check(await listed('busy'));
        await service.send('POST', `/runs/${String(taken[1])}/cancel`);
        await check(await listed('busy'));
        Object.assign(expected, { cpu_cores: 8, ram_mb: 1000, gpus: [600, 400] });
        const idle = await until(
          async () => {
            await steps.heartbeat('busy', { resources, running_ops: [] });
            return listed('busy');
          },
          ({ free }) => free.cpu_cores === 8,
        );
        await check(idle);
      });
    });
  });
}
