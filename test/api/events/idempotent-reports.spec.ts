import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { assertError, bodyOf } from '../../support/http/answer-shapes.js';
import { RunSteps, type Fence } from '../../support/runs/run-steps.js';
import { KEYS, type TestAnswer, type TestApp } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const OTHER_BODY = 'Idempotency-Key was used with another request body';

const replayed = ({ headers }: TestAnswer): boolean => headers.get('idempotency-replayed') === 'true';

describe('an event with an Idempotency-Key', () => {
  const service = useTestApp();
  const twin = useTestApp(() => ({ database: service.database }));
  const steps = new RunSteps(service.send);

  const post = (id: string, key: string, body: unknown, options: Options = {}): Promise<TestAnswer> => {
    const { at = service, fence = {}, minimal = false, apiKey = KEYS.admin } = options;
    return at.send('POST', `/runs/${id}/events`, {
      body,
      key: apiKey,
      headers: {
        'Idempotency-Key': key,
        ...(fence.worker === undefined ? {} : { 'X-Worker-Id': fence.worker }),
        ...(fence.attempt === undefined ? {} : { 'X-Run-Attempt': String(fence.attempt) }),
        ...(minimal ? { Prefer: 'return=minimal' } : {}),
      },
    });
  };

  test('is recorded once however often it is sent, through whichever process, and answered with the run as it is', async () => {
    const { id } = await steps.running({ event_delivery: { topic: 'once' } });
    const body = { type: 'PROGRESS', msg: 40, payload: { a: { b: 1, c: 2 } } };
    const first = await post(id, 'progress', body);
    assert.equal(replayed(first), false);
    assert.equal(bodyOf(first, 'OpRun').events.length, 2);
    await steps.event(id, 'PROGRESS', {}, 60);
    const reordered = { payload: { a: { c: 2, b: 1 } }, msg: 40, type: 'PROGRESS' };
    for (const at of [service, twin]) {
      const again = await post(id, 'progress', reordered, { at });
      assert.equal(replayed(again), true);
      const run = bodyOf(again, 'OpRun');
      assert.deepEqual([run.events.length, run.progress], [3, 60]);
    }
    const feed = await service.send('GET', '/feed?topic=once');
    assert.equal(feed.body.events.length, 3);
  });

  test('is recorded once when fifty requests with the key race through two processes', async () => {
    const { id } = await steps.create();
    const body = { type: 'NOTE', msg: 'once' };
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) =>
        post(id, 'race', body, { at: n % 2 ? twin : service, minimal: n % 3 === 0 }),
      ),
    );
    assert.ok(answers.every(({ status }) => status === 200 || status === 204));
    assert.equal(answers.filter((answer) => !replayed(answer)).length, 1);
    assert.equal((await steps.poll(id)).length, 1);
  });

  test('with another body is refused and changes nothing', async () => {
    const { id } = await steps.create();
    await post(id, 'k', { type: 'NOTE', msg: 1 });
    const run = await steps.get(id);
    for (const body of [
      { type: 'NOTE', msg: 2 },
      { type: 'OTHER', msg: 1 },
      { type: 'NOTE', msg: 1, payload: { a: 1 } },
    ]) {
      assertError(await post(id, 'k', body), 409, OTHER_BODY);
      assertError(await post(id, 'k', body, { at: twin, minimal: true }), 409, OTHER_BODY);
    }
    assert.deepEqual(await steps.get(id), run);
  });

  test('that ended the run is answered as recorded, although a new event would be refused', async () => {
    const { id } = await steps.running();
    const body = { type: 'COMPLETED', msg: 'done', payload: { outputs: { n: 1 } } };
    const fence = { worker: 'w', attempt: 1 };
    assert.equal(bodyOf(await post(id, 'end', body, { fence }), 'OpRun').state, 'COMPLETED');
    const again = await post(id, 'end', body, { fence });
    assert.equal(replayed(again), true);
    assert.equal(bodyOf(again, 'OpRun').state, 'COMPLETED');
    const minimal = await post(id, 'end', body, { fence, minimal: true });
    assert.deepEqual([minimal.status, replayed(minimal), minimal.text], [204, true, '']);
    assertError(
      await post(id, 'another', body, { fence }),
      400,
      'Run is already in terminal state COMPLETED',
    );
  });

  test('that was refused leaves its key free, so that it is judged anew', async () => {
    const { id } = await steps.create();
    const body = { type: 'COMPLETED', msg: '' };
    const words = `Run '${id}' is not assigned to a worker`;
    assertError(await post(id, 'early', body), 409, words);
    assertError(await post(id, 'early', body, { at: twin }), 409, words);
    await steps.heartbeat();
    await steps.claimUntil(id);
    const taken = await post(id, 'early', body);
    assert.equal(replayed(taken), false);
    assert.equal(bodyOf(taken, 'OpRun').state, 'COMPLETED');
    assert.equal(replayed(await post(id, 'early', body)), true);
  });

  test('belongs to its run and to its API key', async () => {
    const [one, two] = [await steps.create(), await steps.create()];
    const body = { type: 'NOTE', msg: '' };
    for (const { id } of [one, two]) assert.equal(replayed(await post(id, 'mine', body)), false);
    assert.equal(replayed(await post(one.id, 'mine', body, { apiKey: KEYS.worker })), false);
    assert.equal((await steps.poll(one.id)).length, 2);
  });
});

interface Options {
  readonly at?: TestApp;
  readonly fence?: Fence;
  readonly minimal?: boolean;
  readonly apiKey?: string;
}

describe('a claim with an Idempotency-Key', () => {
  const env = { SERVICE_WORKER_POOL: 'shared', SERVICE_REAPER_INTERVAL: '3600' };
  const service = useTestApp({ env });
  const twin = useTestApp(() => ({ env, database: service.database }));
  const steps = new RunSteps(service.send);

  beforeAll(async () => {
    await steps.heartbeat('w');
    await steps.heartbeat('v');
  });

  const claim = async (key: string, { at = service, worker = 'w', query = '' } = {}): Promise<string[]> => {
    const answer = await at.send('POST', `/workers/${worker}/claim${query}`, {
      headers: { 'Idempotency-Key': key },
    });
    return bodyOf(answer, 'ClaimedOps').ops.map(({ id }: { id: string }) => id);
  };

  test('gets the same run again while it is still with the worker, through whichever process', async () => {
    const { id } = await steps.create();
    const other = await steps.create();
    assert.deepEqual(await claim('a'), [id]);
    for (const at of [service, twin]) assert.deepEqual(await claim('a', { at }), [id]);
    assert.deepEqual(await claim('a', { query: '?wait=30' }), [id]);
    await steps.event(id, 'STARTED', { worker_id: 'w' });
    assert.deepEqual(await claim('a'), [id]);
    await steps.event(id, 'COMPLETED');
    assert.deepEqual(await claim('a'), []);
    assert.equal((await steps.get(other.id)).state, 'PENDING');
    assert.deepEqual(await claim('b'), [other.id]);
  });

  test('hands one run out once when twenty requests with the key race through two processes', async () => {
    const created = [await steps.create(), await steps.create(), await steps.create()];
    const got = await Promise.all(
      Array.from({ length: 20 }, (_, n) => claim('race', { at: n % 2 ? twin : service })),
    );
    // Not always the oldest: the other process skips it while a claim that comes too late holds it.
    const [id] = got[0] ?? [];
    assert.deepEqual(
      got,
      got.map(() => [id]),
    );
    for (const run of created) {
      assert.equal((await steps.get(run.id)).state, run.id === id ? 'ASSIGNED' : 'PENDING');
    }
    assert.ok(created.some((run) => run.id === id));
    await steps.emptyQueue();
  });

  test('that found nothing is a claim like any other when it is sent again', async () => {
    assert.deepEqual(await claim('none'), []);
    const { id } = await steps.create();
    assert.deepEqual(await claim('none'), [id]);
  });

  test('of one worker says nothing about another, nor about a run that has gone on to another', async () => {
    const { id } = await steps.create();
    assert.deepEqual(await claim('mine'), [id]);
    assert.deepEqual(await claim('mine', { worker: 'v' }), []);
    await service.send('POST', `/runs/${id}/retry`);
    assert.deepEqual(await claim('theirs', { worker: 'v' }), [id]);
    assert.deepEqual(await claim('mine'), []);
  });
});
