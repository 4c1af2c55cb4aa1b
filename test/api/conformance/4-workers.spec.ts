import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { assertError, assertInvalid } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const RESOURCES = { cpu_cores: 1, ram_mb: 1, gpus: [] };

describe('section 4: endpoints of workers', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  const beat = (body: object): Promise<TestAnswer> => service.send('POST', '/workers/heartbeat', { body });
  const complete = { worker_id: 'w', resources: RESOURCES, tags: [] };

  describe('as specified', () => {
    test('a heartbeat answers 200 with the worker', async () => {
      const { status, body } = await beat({ ...complete, worker_id: 'answered' });
      assert.equal(status, 200);
      assert.equal(body.id, 'answered');
    });

    test('the first heartbeat registers the worker, both of its times being now', async () => {
      const began = Date.now();
      const worker = await steps.heartbeat('new');
      assert.equal(worker.created_at, worker.last_heartbeat_at);
      assert.ok(Date.parse(worker.created_at) >= began - 1000);
    });

    test('a further heartbeat replaces resources and tags and moves the second time only', async () => {
      const first = await steps.heartbeat('again', { tags: ['a'] });
      const resources = { cpu_cores: 9, ram_mb: 8, gpus: [{ id: 0, vram_mb: 1, tags: [] }] };
      const second = await steps.heartbeat('again', { resources, tags: ['b'] });
      assert.deepEqual([second.resources, second.tags], [resources, ['b']]);
      assert.equal(second.created_at, first.created_at);
      assert.ok(second.last_heartbeat_at >= first.last_heartbeat_at);
    });

    test('running runs change only by a heartbeat that names them', async () => {
      const running = [{ id: 'r', image: 'i', inputs: {}, constraints: {} }];
      assert.deepEqual((await steps.heartbeat('busy')).running_ops, []);
      assert.deepEqual((await steps.heartbeat('busy', { running_ops: running })).running_ops, running);
      assert.deepEqual((await steps.heartbeat('busy')).running_ops, running);
      assert.deepEqual((await steps.heartbeat('busy', { running_ops: [] })).running_ops, []);
    });

    for (const field of ['worker_id', 'resources', 'tags']) {
      test(`a heartbeat without ${field} is refused`, async () => {
        const rest = Object.fromEntries(Object.entries(complete).filter(([name]) => name !== field));
        assertInvalid(await beat(rest), [`${field} is required`]);
      });
    }

    test('a heartbeat with invalid data is 400 and registers nobody', async () => {
      assert.equal((await beat({ ...complete, worker_id: 'bad', tags: 'x' })).status, 400);
      assert.equal(
        (await beat({ ...complete, worker_id: 'bad', resources: { cpu_cores: 'x' } })).status,
        400,
      );
      const { body } = await service.send('GET', '/workers');
      assert.ok(!body.some(({ id }: { id: string }) => id === 'bad'));
    });

    test('GET /workers lists every registered worker', async () => {
      const a = await steps.heartbeat('list-a');
      const b = await steps.heartbeat('list-b');
      const { status, body } = await service.send('GET', '/workers');
      assert.equal(status, 200);
      const listed = body.filter(({ id }: { id: string }) => id.startsWith('list-'));
      const { cpu_cores, ram_mb } = a.resources;
      const free = { cpu_cores, cpu_millis: 1000 * cpu_cores, ram_mb, gpus: [] };
      assert.deepEqual(listed, [
        { ...a, free, assigned: { count: 0, ids: [] } },
        { ...b, free, assigned: { count: 0, ids: [] } },
      ]);
    });

    test('a claim answers 200 with the runs that it moved from PENDING to ASSIGNED', async () => {
      await steps.emptyQueue();
      const { id } = await steps.create();
      await steps.heartbeat('claims');
      const { status, body } = await service.send('POST', '/workers/claims/claim');
      assert.equal(status, 200);
      assert.deepEqual(
        body.ops.map((op: { id: string }) => op.id),
        [id],
      );
      assert.equal((await steps.get(id)).state, 'ASSIGNED');
    });

    test('a claim gets an empty list when nothing is pending, and when nobody knows the worker', async () => {
      await steps.emptyQueue();
      assert.deepEqual(await steps.claim('w'), []);
      const { id } = await steps.create();
      assert.deepEqual(await steps.claim('stranger'), []);
      assert.equal((await steps.get(id)).state, 'PENDING');
      await steps.emptyQueue();
    });
  });

  describe('as settled', () => {
    test('the direct strategy gives one run a claim: by priority, then age', async () => {
      await steps.emptyQueue();
      const ids = [];
      for (const priority of [0, 1, 0, 1]) ids.push((await steps.create({ priority })).id);
      const order = [];
      for (let i = 0; i < 4; i += 1) {
        const ops = await steps.claim();
        assert.equal(ops.length, 1);
        order.push(ids.indexOf(ops[0].id));
      }
      assert.deepEqual(order, [1, 3, 0, 2]);
    });

    test('a claimed run says which attempt it is', async () => {
      await steps.emptyQueue();
      const { id } = await steps.create();
      await service.send('POST', `/runs/${id}/retry`);
      assert.equal((await steps.claim())[0].attempt, 2);
    });

    test('a claim is no heartbeat and changes nothing of the worker', async () => {
      const worker = await steps.heartbeat('still');
      const { id: run } = await steps.create();
      await steps.claimUntil(run, 'still');
      const { body } = await service.send('GET', '/workers');
      const { free: _, assigned, ...seen } = body.find(({ id }: { id: string }) => id === 'still');
      assert.deepEqual(seen, worker);
      assert.ok(assigned.ids.includes(run));
    });

    test('ids of workers may hold : and /, and begin with a letter or digit', async () => {
      const id = 'host.example:8080/worker_1-a';
      await steps.emptyQueue();
      assert.equal((await steps.heartbeat(id)).id, id);
      await steps.create();
      assert.equal((await steps.claim(id)).length, 1);
      for (const bad of ['', '-a', '.a', 'a b', 'ä', 'x'.repeat(129)]) {
        assert.equal((await beat({ ...complete, worker_id: bad })).status, 400, bad);
      }
    });

    test('resources are whole numbers from 0 on, and a GPU may have no tags', async () => {
      const gpus = [{ id: 0, vram_mb: 0 }];
      const { resources } = await steps.heartbeat('zero', { resources: { cpu_cores: 0, ram_mb: 0, gpus } });
      assert.deepEqual(resources.gpus, [{ id: 0, vram_mb: 0, tags: [] }]);
      for (const ram of [-1, 0.5, '1']) {
        assert.equal((await beat({ ...complete, resources: { ...RESOURCES, ram_mb: ram } })).status, 400);
      }
    });

    test('two GPUs with one id are refused', async () => {
      const gpus = [0, 1, 0].map((id) => ({ id, vram_mb: 1, tags: [] }));
      assertInvalid(await beat({ ...complete, resources: { ...RESOURCES, gpus } }), [
        'resources.gpus[2].id must not repeat the id of another GPU',
      ]);
    });

    test('heartbeat and claim are for workers, the list for clients', async () => {
      const { send } = service;
      const client = { key: 'test-client-key-of-the-tests' };
      assertError(await send('POST', '/workers/heartbeat', client), 403, `API key lacks scope 'worker'`);
      assertError(await send('POST', '/workers/w/claim', client), 403, `API key lacks scope 'worker'`);
      const list = await send('GET', '/workers', { key: 'test-worker-key-of-the-tests' });
      assertError(list, 403, `API key lacks scope 'client'`);
    });
  });
});
