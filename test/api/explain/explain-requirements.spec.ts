import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'vitest';
import { bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

/* oxlint-disable typescript/no-explicit-any -- tests look into answers of any shape */

const idsOf = (ops: readonly any[]): string[] => ops.map(({ id }) => id);

for (const scheduler of ['direct', 'fit']) {
  describe(`an explanation by the strategy ${scheduler} of a run that not every worker may get`, () => {
    const service = useTestApp({
      env: { SERVICE_SCHEDULER: scheduler, SERVICE_WORKER_TIMEOUT: '3600' },
    });
    const steps = new RunSteps(service.send);

    afterEach(async () => {
      for (const state of ['PENDING', 'ASSIGNED', 'RUNNING']) {
        for (const { id } of (await service.send('GET', `/runs?limit=100&state=${state}`)).body.data) {
          await service.send('POST', `/runs/${id}/cancel`);
        }
      }
      for (const { id } of (await service.send('GET', '/workers')).body) {
        await service.send('DELETE', `/workers/${id}`);
      }
    });

    async function putSecret(name: string): Promise<void> {
      const body = { kind: 'opaque', value: 'v' };
      assert.ok((await service.send('PUT', `/secrets/${name}`, { body })).status < 300);
    }

    async function explain(id: string): Promise<any> {
      return bodyOf(await service.send('GET', `/runs/${id}/explain`), 'RunExplanation');
    }

    test('names the secrets that do not exist, before a worker gets it', async () => {
      await putSecret('there');
      const { id } = await steps.create({
        secrets: { A: 'there', B: 'nope' },
        files: { '/a': { secret: 'no-file' }, '/b': { content: '' } },
      });
      const { missing_secrets: missing, summary } = await explain(id);
      assert.deepEqual(missing, ['nope', 'no-file']);
      assert.match(
        summary,
        / The secret 'nope' and 1 more that it uses do not exist: an attempt would fail\.$/,
      );
      for (const name of missing) await putSecret(name);
      const after = await explain(id);
      assert.deepEqual(after.missing_secrets, []);
      assert.doesNotMatch(after.summary, /secret '/);
    });

    test('counts no worker as able that says why it does not claim, and passes its reason on', async () => {
      const { id } = await steps.create();
      const reason = { reason: 'disk_full', message: "the engine's disk is full" };
      await steps.heartbeat('w', { not_claiming: [reason] });
      const told = await explain(id);
      assert.deepEqual(told.counts, {
        active: 1,
        draining: 0,
        not_claiming: 1,
        away: 0,
        stale: 0,
        able_now: 0,
        able_ever: 0,
      });
      const [{ can_take_now: canTakeNow, could_ever: couldEver, not_claiming: reasons }] = told.workers;
      assert.deepEqual([canTakeNow, couldEver, reasons], [false, true, [reason]]);
      assert.match(
        told.summary,
        /no active worker claims: worker 'w' says disk full \(the engine's disk is full\)\.$/,
      );
      const capacity = bodyOf(await service.send('GET', '/capacity'), 'CapacityReport');
      const none = { active: 0, idle: 0, reserved: 0, draining: 0, away: 0, stale: 0 };
      assert.deepEqual(capacity.supply.workers, { ...none, not_claiming: 1 });
      assert.deepEqual(capacity.supply.sizes, []);
      await steps.heartbeat('other', {});
      const shared = await explain(id);
      assert.deepEqual(shared.counts, {
        active: 2,
        draining: 0,
        not_claiming: 1,
        away: 0,
        stale: 0,
        able_now: 1,
        able_ever: 1,
      });
      assert.deepEqual(
        shared.workers.map((worker: any) => worker.id),
        ['other', 'w'],
      );
    });

    test('names the tags that no active worker has', async () => {
      const { id } = await steps.create({ selector: ['gpu', 'eu', 'ssd'] });
      assert.equal((await explain(id)).summary, 'Number 1 in the queue; no worker is active.');
      await steps.heartbeat('w', { tags: ['eu'] });
      const { workers, counts, summary, requirements } = await explain(id);
      assert.equal(summary, 'Number 1 in the queue; no active worker has the tags gpu, ssd.');
      assert.deepEqual(requirements, { selector: ['gpu', 'eu', 'ssd'], capabilities: [], gpu_selector: [] });
      assert.deepEqual(workers, [
        {
          id: 'w',
          can_take_now: false,
          could_ever: false,
          draining: false,
          not_claiming: [],
          unable: [],
          ending: null,
          obstacles: [{ resource: 'tags', needed: 3, free: 1, total: 1, missing: ['gpu', 'ssd'] }],
        },
      ]);
      assert.deepEqual([counts.active, counts.able_now, counts.able_ever], [1, 0, 0]);
      assert.deepEqual(await steps.claim('w'), []);
    });

    test('names the capability that no active worker announces', async () => {
      const { id } = await steps.create({ env: { A: 'a' }, command: ['true'] });
      await steps.heartbeat('w', { capabilities: ['command'] });
      const { workers, summary, requirements } = await explain(id);
      assert.equal(summary, 'Number 1 in the queue; no active worker announces the capability env.');
      assert.deepEqual(requirements, { selector: [], capabilities: ['env', 'command'], gpu_selector: [] });
      assert.deepEqual(workers[0].obstacles, [
        { resource: 'capabilities', needed: 2, free: 1, total: 1, missing: ['env'] },
      ]);
      assert.deepEqual(await steps.claim('w'), []);
    });

    test('names the volume that no active worker offers, or lets runs write into', async () => {
      const { id } = await steps.create({
        mounts: [
          { volume: 'results', path: '/out' },
          { scratch_mb: 1, path: '/tmp/x' },
        ],
      });
      await steps.heartbeat('w', { capabilities: ['scratch', 'volume:other:rw'] });
      const said = async (): Promise<string> => (await explain(id)).summary;
      assert.equal(await said(), "Number 1 in the queue; no active worker offers the volume 'results'.");
      const { workers, requirements } = await explain(id);
      assert.deepEqual(requirements, {
        selector: [],
        capabilities: ['volume:results:rw', 'scratch'],
        gpu_selector: [],
      });
      assert.deepEqual(workers[0].obstacles[0].missing, ['volume:results:rw']);
      const { body } = await service.send('GET', '/capacity');
      assert.equal(body.demand.selectors[0].lacking, "no active worker offers the volume 'results'");
      await steps.heartbeat('w', { capabilities: ['volume:results'] });
      assert.equal(
        await said(),
        "Number 1 in the queue; no active worker lets runs write into the volume 'results', and no active worker announces the capability scratch.",
      );
      await steps.heartbeat('v', { capabilities: ['scratch', 'volume:results:rw'] });
      assert.deepEqual(await steps.claim('w'), []);
      assert.equal((await service.send('GET', '/capacity')).body.demand.selectors[0].lacking, null);
      assert.deepEqual(idsOf(await steps.claim('v')), [id]);
    });

    test('says that no worker has all that it needs, and counts exactly those that have', async () => {
      const { id } = await steps.create({ selector: ['gpu'], env: { A: 'a' } });
      await steps.heartbeat('a', { tags: ['gpu'] });
      await steps.heartbeat('b', { capabilities: ['env'] });
      assert.equal(
        (await explain(id)).summary,
        'Number 1 in the queue; no active worker has all of the tag gpu and the capability env.',
      );
      await steps.heartbeat('c', { tags: ['gpu'], capabilities: ['env'] });
      await steps.heartbeat('d', { tags: ['gpu'], capabilities: ['env'] });
      await service.send('POST', '/workers/d/drain');
      const { counts, summary, workers } = await explain(id);
      assert.deepEqual(counts, {
        active: 4,
        draining: 1,
        not_claiming: 0,
        away: 0,
        stale: 0,
        able_now: 1,
        able_ever: 1,
      });
      assert.equal(summary, 'Number 1 in the queue; 1 worker can take it as soon as it is their turn.');
      assert.equal(workers[0].id, 'c');
      for (const other of ['a', 'b', 'd']) assert.deepEqual(await steps.claim(other), []);
      assert.deepEqual(idsOf(await steps.claim('c')), [id]);
    });

    test('says that those which have the tags are too small', async () => {
      const { id } = await steps.create({ selector: ['gpu'], constraints: { cpu: 1000 } });
      await steps.heartbeat('w', { tags: ['gpu'] });
      await steps.heartbeat('large', { resources: { cpu_cores: 2000, ram_mb: 1, gpus: [] } });
      const { summary, counts } = await explain(id);
      assert.match(summary, /; no active worker with the tag gpu could ever (take|execute) it/);
      assert.equal(counts.able_ever, 0);
    });

    test('names the runs that hold its key, and what frees it', async () => {
      const concurrency = { key: 'db', limit: 2 };
      const large = { resources: { cpu_cores: 9, ram_mb: 1, gpus: [] } };
      for (const id of ['a', 'b', 'c']) await steps.heartbeat(id, large);
      const first = await steps.create({ concurrency });
      assert.deepEqual(idsOf(await steps.claim('a')), [first.id]);
      const second = await steps.create({ concurrency });
      assert.deepEqual(idsOf(await steps.claim('b')), [second.id]);
      await steps.event(second.id, 'STARTED', { worker_id: 'b' });
      const { id } = await steps.create({ concurrency });
      const full = await explain(id);
      assert.deepEqual(full.concurrency, {
        key: 'db',
        limit: 2,
        executing: 2,
        holders: [
          { run_id: first.id, state: 'ASSIGNED', worker_id: 'a' },
          { run_id: second.id, state: 'RUNNING', worker_id: 'b' },
        ],
      });
      assert.equal(
        full.summary,
        `Number 1 in the queue; its concurrency key 'db' is at its limit of 2, held by runs ${first.id}, ${second.id}.`,
      );
      assert.deepEqual([full.counts.able_now, full.counts.able_ever], [0, 3]);
      assert.deepEqual(full.workers[0].obstacles, [
        { resource: 'concurrency', needed: 1, free: 0, total: 2 },
      ]);
      assert.deepEqual(await steps.claim('c'), []);
      const executing = (await explain(first.id)).concurrency;
      assert.deepEqual(
        [executing.executing, executing.holders],
        [2, [{ run_id: second.id, state: 'RUNNING', worker_id: 'b' }]],
      );
      await steps.event(second.id, 'COMPLETED');
      assert.equal((await explain(second.id)).concurrency, null);
      const free = await explain(id);
      assert.deepEqual([free.concurrency.executing, free.counts.able_now], [1, 3]);
      assert.deepEqual(idsOf(await steps.claim('c')), [id]);
    });

    test('says when it starts, and in back-off when that ends', async () => {
      await steps.heartbeat('w');
      const startAt = new Date(Date.now() + 3_600_000).toISOString();
      const { id } = await steps.create({ start_at: startAt, selector: ['gpu'] });
      const { queue, counts, summary } = await explain(id);
      assert.deepEqual(
        [queue.position, queue.not_before, queue.start_at, summary],
        [null, startAt, startAt, `Not assigned before its start_at, ${startAt}.`],
      );
      assert.equal(counts.able_now, 0);
      const past = new Date(Date.now() - 1000).toISOString();
      const retried = await steps.running({
        start_at: past,
        retry_policy: { max_attempts: 2, backoff_s: 600 },
      });
      await steps.event(retried.id, 'FAILED');
      const backOff = await explain(retried.id);
      assert.equal(backOff.queue.start_at, null);
      assert.match(backOff.summary, /^In back-off until /);
    });
  });
}
