import assert from 'node:assert/strict';
import { beforeAll, describe, it } from 'vitest';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { ClaimQuota } from '../../../src/claims/claims.controller.js';
import { WorkerPool } from '../../../src/workers/pool/worker-pool.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { issueKey } from '../../support/app/api-keys.js';
import { fence } from '../../support/app/secrets.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS, newSecretsKey, senderTo, type Send } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const CAPABLE = ['env', 'secrets'];
const FIRST = { priority: 2 ** 31 - 1 };
const VAULT = "API key is not bound to tag 'prod-vault'";

for (const pool of ['memory', 'shared']) {
  describe(`a key that is bound to tags and capabilities, with the pool ${pool}`, () => {
    const service = useTestApp(() => ({
      env: {
        SERVICE_WORKER_POOL: pool,
        SERVICE_SECRETS_KEY: newSecretsKey(),
        SERVICE_API_KEYS: [
          `admin:${KEYS.admin}`,
          'worker@w-1+tag:dev+capability:env+capability:secrets:key-of-the-settings-1',
          'worker@tag:dev:key-of-the-settings-2',
        ].join(','),
      },
    }));
    const admin = new RunSteps(service.send);
    /** Bound to w-1 and to a tag and capabilities: by the settings, and by the API. */
    let ofSettings: Send;
    let ofApi: Send;
    /** Bound to a tag, and to no worker's id. */
    let anyId: Send;

    beforeAll(async () => {
      ofSettings = senderTo(service.url, 'key-of-the-settings-1');
      anyId = senderTo(service.url, 'key-of-the-settings-2');
      const made = await issueKey(service, ['worker'], {
        worker_ids: ['w-1'],
        worker_tags: ['dev'],
        worker_capabilities: CAPABLE,
      });
      ofApi = senderTo(service.url, made.key);
      await service.send('PUT', '/secrets/vault', { body: { kind: 'opaque', value: 'hunter2' } });
    });

    const both = (): readonly Send[] => [ofSettings, ofApi];
    const workerOf = async (id: string): Promise<Json> => {
      const { body } = await service.send('GET', '/workers');
      return body.find((worker: Json) => worker.id === id);
    };

    it('gets 403 for a heartbeat with another tag or capability, which it names and which changes nothing', async () => {
      for (const send of both()) {
        const mine = new RunSteps(send);
        await service.send('DELETE', '/workers/w-1');
        const wide = { tags: ['dev', 'prod-vault', 'x'], capabilities: ['env', 'registry'] };
        assertError(
          await mine.sendHeartbeat('w-1', wide),
          403,
          "API key is not bound to tag 'prod-vault', tag 'x', capability 'registry'",
        );
        assert.equal(await workerOf('w-1'), undefined);
        await mine.heartbeat('w-1', { tags: ['dev'], capabilities: ['env'] });
        assertError(await mine.sendHeartbeat('w-1', { tags: ['prod-vault'] }, '?wait=1'), 403, VAULT);
        assert.deepEqual((await workerOf('w-1'))?.tags, ['dev']);
        const many = Array.from({ length: 12 }, (_, n) => `t${n}`);
        const named = many.slice(0, 10).map((tag) => `tag '${tag}'`);
        assertError(
          await mine.sendHeartbeat('w-1', { tags: many }),
          403,
          `API key is not bound to ${named.join(', ')} and 2 more`,
        );
      }
    });

    it('gets the runs whose tags and capabilities it has, their secrets, and reports on them', async () => {
      for (const send of both()) {
        const mine = new RunSteps(send);
        await mine.heartbeat('w-1', { tags: ['dev'], capabilities: CAPABLE });
        const { id } = await admin.create({ ...FIRST, selector: ['dev'], secrets: { A: 'vault' } });
        assert.deepEqual(
          (await mine.claim('w-1')).map((op) => op.id),
          [id],
        );
        const read = await send('GET', `/runs/${id}/secrets`, { headers: fence('w-1') });
        assert.deepEqual(read.body, { env: { A: 'hunter2' }, files: {}, registry: null });
        const started = { type: 'STARTED', msg: '', payload: { worker_id: 'w-1' } };
        assert.equal((await mine.report(id, started, { worker: 'w-1', attempt: 1 })).status, 200);
        assert.equal((await mine.get(id)).state, 'RUNNING');
      }
    });

    it('gets 403 for a claim of a worker that another key registered with another tag, with and without a wait', async () => {
      const { id } = await admin.create({ ...FIRST, selector: ['prod-vault'] });
      await admin.heartbeat('w-1', { tags: ['dev', 'prod-vault'] });
      for (const send of [...both(), anyId]) {
        for (const query of ['', '?max=5', '?wait=1']) {
          assertError(await send('POST', `/workers/w-1/claim${query}`), 403, VAULT);
        }
      }
      assert.equal((await admin.get(id)).state, 'PENDING');
      await admin.claimUntil(id, 'w-1');
      for (const send of both()) {
        const mine = new RunSteps(send);
        assertError(await send('POST', '/workers/w-1/claim?wait=1'), 403, VAULT);
        await mine.heartbeat('w-1', { tags: ['dev'] });
        assert.deepEqual(await mine.claim('w-1'), []);
        await admin.heartbeat('w-1', { tags: ['dev', 'prod-vault'] });
      }
    });

    it('gets 403 for a claim that waits while another key registers its worker with another tag', async () => {
      await new RunSteps(ofApi).heartbeat('w-1', { tags: ['dev'] });
      const waiting = ofApi('POST', '/workers/w-1/claim?wait=20');
      while (service.app.get(ClaimQuota).held === 0) await nextTurn();
      await admin.heartbeat('w-1', { tags: ['prod-vault'] });
      await admin.create({ ...FIRST, selector: ['prod-vault'] });
      assertError(await waiting, 403, VAULT);
      await admin.emptyQueue('w-1');
    });

    it('gets 403 when the worker gets another tag between the check of the claim and its commit', async () => {
      await admin.heartbeat('w-1', { tags: ['prod-vault'] });
      const { id } = await admin.create({ ...FIRST, selector: ['prod-vault'] });
      const workers = service.app.get(WorkerPool);
      const find = workers.find.bind(workers);
      workers.find = async (workerId) => {
        const worker = await find(workerId);
        return worker && { ...worker, tags: ['dev'] };
      };
      try {
        assertError(await ofApi('POST', '/workers/w-1/claim'), 403, VAULT);
        assertError(await ofApi('POST', '/workers/w-1/claim?wait=20'), 403, VAULT);
      } finally {
        Reflect.deleteProperty(workers, 'find');
      }
      assert.equal((await admin.get(id)).state, 'PENDING');
      await admin.claimUntil(id, 'w-1');
    });

    it('does not get the runs of an earlier claim again once its worker has another tag', async () => {
      const mine = new RunSteps(ofApi);
      await mine.heartbeat('w-1', { tags: ['dev'] });
      const { id } = await admin.create({ ...FIRST, selector: ['dev'] });
      const headers = { 'Idempotency-Key': 'repeated' };
      const first = await ofApi('POST', '/workers/w-1/claim', { headers });
      assert.equal(first.body.ops[0].id, id);
      await admin.heartbeat('w-1', { tags: ['prod-vault'] });
      assertError(await ofApi('POST', '/workers/w-1/claim', { headers }), 403, VAULT);
      await mine.heartbeat('w-1', { tags: ['dev'] });
      assert.equal((await ofApi('POST', '/workers/w-1/claim', { headers })).body.ops[0].id, id);
    });

    it('reads neither secrets nor anything else of a run that demands another tag or capability, whoever has it', async () => {
      const { id } = await admin.create({ ...FIRST, selector: ['prod-vault'], secrets: { A: 'vault' } });
      const login = await admin.create({ ...FIRST, image_pull_secret: 'login' });
      for (const worker of ['w-1']) {
        await admin.heartbeat(worker, { tags: ['prod-vault'], capabilities: ['secrets', 'registry'] });
        await admin.claimUntil(id, worker);
        await admin.claimUntil(login.id, worker);
        await admin.heartbeat(worker);
        for (const send of [...both(), anyId]) {
          const read = await send('GET', `/runs/${id}/secrets`, { headers: fence(worker) });
          assertError(read, 403, VAULT);
          const body = { names: ['outputs.json'] };
          const urls = await send('POST', `/runs/${id}/artifact-urls`, { headers: fence(worker), body });
          assertError(urls, 404, `OpRun '${id}' not found`);
          for (const path of ['', '/events', '/attempts', '/logs', '/logs/stream']) {
            assertError(await send('GET', `/runs/${id}${path}`), 404, `OpRun '${id}' not found`);
          }
        }
        for (const send of both()) {
          const read = await send('GET', `/runs/${login.id}/secrets`, { headers: fence(worker) });
          assertError(read, 403, "API key is not bound to capability 'registry'");
        }
      }
      const { body } = await service.send('GET', '/audit?limit=500');
      assert.deepEqual(
        body.filter((entry: Json) => entry.run_id === id),
        [],
      );
    });

    it('without ids acts as any worker with its tags, and is bound otherwise', async () => {
      const mine = new RunSteps(anyId);
      await mine.heartbeat('some-worker', { tags: ['dev'], capabilities: ['anything'] });
      const { id } = await admin.create({ ...FIRST, selector: ['dev'] });
      assert.equal((await mine.claim('some-worker'))[0].id, id);
      assertError(await mine.sendHeartbeat('other', { tags: ['prod-vault'] }), 403, VAULT);
      for (const path of ['/runs', `/runs/${id}/explain`]) {
        assertError(await anyId('GET', path), 403, 'API key is bound to workers and cannot use this route');
      }
      const note = { type: 'NOTE', msg: '' };
      assert.equal((await mine.report(id, note)).status, 400);
      assert.equal((await mine.report(id, note, { worker: 'some-worker', attempt: 1 })).status, 200);
      const unclaimed = await admin.create({ selector: ['nobody-has-this'] });
      assertError(await anyId('GET', `/runs/${unclaimed.id}`), 404, `OpRun '${unclaimed.id}' not found`);
    });

    it('with empty lists has workers without tags and capabilities only', async () => {
      const { key } = await issueKey(service, ['worker'], { worker_tags: [], worker_capabilities: [] });
      const mine = new RunSteps(senderTo(service.url, key));
      await mine.heartbeat('plain');
      assertError(
        await mine.sendHeartbeat('plain', { tags: ['dev'] }),
        403,
        "API key is not bound to tag 'dev'",
      );
      const capable = await mine.sendHeartbeat('plain', { capabilities: ['env'] });
      assertError(capable, 403, "API key is not bound to capability 'env'");
    });

    it('bound to ids alone reports any tag and capability', async () => {
      const { key } = await issueKey(service, ['worker'], { worker_ids: ['w-9'] });
      const mine = new RunSteps(senderTo(service.url, key));
      await mine.heartbeat('w-9', { tags: ['prod-vault'], capabilities: ['registry'] });
      const { id } = await admin.create({ ...FIRST, selector: ['prod-vault'] });
      await mine.claimUntil(id, 'w-9');
    });

    it('says what it is bound to, in the list of keys and to itself', async () => {
      const binding = { worker_ids: ['w-1'], worker_tags: ['dev'], worker_capabilities: CAPABLE };
      for (const send of both()) {
        const { worker_ids, worker_tags, worker_capabilities } = (await send('GET', '/whoami')).body;
        assert.deepEqual({ worker_ids, worker_tags, worker_capabilities }, binding);
      }
      const { body } = await service.send('GET', '/api-keys');
      const listed: Json = body.find(({ worker_ids: ids }: Json) => ids?.[0] === 'w-1');
      const { worker_ids, worker_tags, worker_capabilities } = listed;
      assert.deepEqual({ worker_ids, worker_tags, worker_capabilities }, binding);
    });
  });
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of any shape
type Json = any;
