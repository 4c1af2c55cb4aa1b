import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { Drain } from '../../../src/common/http/server/drain.js';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { beforeTimeOut, until } from '../../support/app/passing-time.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import { ClaimQuota } from '../../../src/claims/claims.controller.js';
import { KEYS, startTestApp, type TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const idsOf = ({ body }: TestAnswer): string[] => body.ops.map(({ id }: { id: string }) => id);

interface Waiting {
  readonly answer: Promise<TestAnswer>;
}

describe('a claim that waits', () => {
  // Two processes that share the pool of workers, as two servers behind one address.
  const env = { SERVICE_WORKER_POOL: 'shared', SERVICE_REAPER_INTERVAL: '3600' };
  const service = useTestApp({ env });
  const twin = useTestApp(() => ({ env, database: service.database }));
  const steps = new RunSteps(service.send);

  beforeEach(() => steps.emptyQueue());

  const claim = (worker: string, wait: number | string, at = service): Promise<TestAnswer> =>
    at.send('POST', `/workers/${worker}/claim?wait=${wait}`);

  const create = async (): Promise<string> => (await steps.create()).id;

  /** The answer to a claim that may wait for 30 s, which must come before that. */
  const soon = async ({ answer }: Waiting): Promise<TestAnswer> => {
    const response = await beforeTimeOut(service, answer);
    assert.equal(response.status, 200, response.text);
    return response;
  };

  /** Begins a claim that has looked at the empty queue before this returns. */
  const wait = async (worker: string, seconds: number, at = service): Promise<Waiting> => {
    await steps.heartbeat(worker);
    const answer = claim(worker, seconds, at);
    answer.catch(() => undefined);
    await sleep(150);
    return { answer };
  };

  /** As `wait` of the worker `again`, always under the same key. */
  const waitUnderOneKey = async (seconds = 30, at = service, key = 'again'): Promise<Waiting> => {
    const answer = at.send('POST', `/workers/again/claim?wait=${seconds}`, {
      headers: { 'Idempotency-Key': key },
    });
    answer.catch(() => undefined);
    await sleep(150);
    return { answer };
  };

  for (const [title, at] of [
    ['this process', () => service],
    ['another process', () => twin],
  ] as const) {
    test(`gets a run at once that is created in ${title}`, async () => {
      const waiting = await wait('w', 30);
      const { body } = await at().send('POST', '/runs', { body: { image: 'i' } });
      assert.deepEqual(idsOf(await soon(waiting)), [body.id]);
    });
  }

  test('gets a run at once that is retried, patched to PENDING or failed with a retry left', async () => {
    const { id } = await steps.create({ retry_policy: { max_attempts: 2 } });
    assert.deepEqual(idsOf(await claim('w', 0)), [id]);
    const causes = [
      ['POST', `/runs/${id}/events`, { type: 'FAILED', msg: '' }],
      ['POST', `/runs/${id}/retry`, undefined],
      ['PATCH', `/runs/${id}`, { state: 'PENDING' }],
    ] as const;
    for (const [method, path, body] of causes) {
      const waiting = await wait('w', 30);
      const answer = await twin.send(method, path, body ? { body } : {});
      assert.equal(answer.status, 200, answer.text);
      assert.deepEqual(idsOf(await soon(waiting)), [id], `after ${method} ${path}`);
    }
  });

  test('is answered with an empty list when the time is over', async () => {
    await steps.heartbeat('w');
    const answer = claim('w', 1);
    // It is held, so it does not answer before.
    while (service.app.get(ClaimQuota).held === 0) await sleep(1);
    assert.deepEqual((await soon({ answer })).body, { ops: [] });
  });

  test('is answered with an empty list when the service stops', async () => {
    const stopping = await startTestApp({
      env: { SERVICE_WORKER_POOL: 'shared' },
      database: service.database,
    });
    const waiting = await wait('w', 30, stopping);
    const drained = stopping.app.get(Drain).begin();
    assert.deepEqual((await soon(waiting)).body, { ops: [] });
    await drained;
    await stopping.close();
  });

  test('wakes one waiting worker for one run, and each for as many', async () => {
    const waiting = await Promise.all(
      Array.from({ length: 20 }, (_, n) => wait(`w${n}`, 30, n % 2 === 0 ? service : twin)),
    );
    const answers: TestAnswer[] = [];
    for (const { answer } of waiting) void answer.then((response) => answers.push(response));
    const seven = await Promise.all(Array.from({ length: 7 }, create));
    await until(
      () => Promise.resolve(answers.length),
      (count) => count === 7,
    );
    assert.deepEqual(answers.flatMap(idsOf).toSorted(), seven.toSorted());
    const others = await Promise.all(Array.from({ length: 13 }, create));
    await until(
      () => Promise.resolve(answers.length),
      (count) => count === 20,
    );
    assert.deepEqual(
      answers.map((response) => idsOf(response).length),
      Array(20).fill(1),
    );
    assert.deepEqual(answers.flatMap(idsOf).toSorted(), [...seven, ...others].toSorted());
  });

  test('passes its turn on when its caller has gone', async () => {
    await steps.heartbeat('gone');
    const controller = new AbortController();
    const cut = fetch(`${service.url}/workers/gone/claim?wait=30`, {
      method: 'POST',
      headers: { 'X-API-Key': 'test-admin-key-of-the-tests' },
      signal: controller.signal,
    }).catch(() => undefined);
    await sleep(150);
    const next = await wait('next', 30);
    controller.abort();
    await cut;
    const { id } = await steps.create();
    assert.deepEqual(idsOf(await soon(next)), [id]);
  });

  test('passes its turn on when its key brings the runs of an earlier claim', async () => {
    await steps.heartbeat('again');
    const first = await waitUnderOneKey();
    const second = await waitUnderOneKey();
    const next = await wait('next', 30);
    const { body: one } = await twin.send('POST', '/runs', { body: { image: 'i' } });
    assert.deepEqual(idsOf(await soon(first)), [one.id]);
    const { body: other } = await twin.send('POST', '/runs', { body: { image: 'i' } });
    assert.deepEqual(idsOf(await soon(second)), [one.id]);
    assert.deepEqual(idsOf(await soon(next)), [other.id]);
  });

  test('answers at its end what its key has brought in another process', async () => {
    await steps.heartbeat('again');
    const first = await waitUnderOneKey(30, service, 'both');
    const second = await waitUnderOneKey(6, twin, 'both');
    const { id } = await steps.create();
    assert.deepEqual(idsOf(await soon(first)), [id]);
    assert.deepEqual(idsOf(await second.answer), [id]);
  });

  test('gets a run that another transaction held while it looked', async () => {
    const { id } = await steps.create();
    await steps.heartbeat('w');
    const holder = service.database.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query('select 1 from runs where id = $1 for update', [id]);
    const answer = claim('w', 30);
    await sleep(300);
    await holder.rollbackTransaction();
    await holder.release();
    assert.deepEqual(idsOf(await soon({ answer })), [id]);
  });

  test('of a worker that goes silent meanwhile gets nothing, and the next one does', async () => {
    const short = await startTestApp({
      env: { SERVICE_WORKER_TIMEOUT: '1', SERVICE_REAPER_INTERVAL: '3600' },
    });
    const { send } = short;
    const beat = (id: string): Promise<TestAnswer> =>
      send('POST', '/workers/heartbeat', {
        body: { worker_id: id, resources: { cpu_cores: 1, ram_mb: 1, gpus: [] }, tags: [] },
      });
    await beat('silent');
    const silent = send('POST', '/workers/silent/claim?wait=4');
    await sleep(1_300);
    await beat('awake');
    const awake = send('POST', '/workers/awake/claim?wait=4');
    await sleep(100);
    const created = await send('POST', '/runs', { body: { image: 'i' } });
    assert.deepEqual(idsOf(await awake), [created.body.id]);
    assert.deepEqual(idsOf(await silent), []);
    await short.close();
  });

  test('of a worker that is unknown or draining gets a run at once when that ends', async () => {
    const { id } = await steps.create();
    const unknown = claim('newcomer', 30);
    await sleep(150);
    await steps.heartbeat('newcomer');
    assert.deepEqual(idsOf(await soon({ answer: unknown })), [id]);
    assert.equal((await service.send('POST', '/workers/newcomer/drain')).status, 200);
    const next = await steps.create();
    const draining = claim('newcomer', 30);
    await sleep(150);
    assert.equal((await steps.get(next.id)).state, 'PENDING');
    assert.equal((await service.send('POST', '/workers/newcomer/resume')).status, 200);
    assert.deepEqual(idsOf(await soon({ answer: draining })), [next.id]);
  });

  test('is refused with 429 when its key has as many as it may, and with 503 when the process has', async () => {
    const limited = await startTestApp({
      env: { SERVICE_WAITING_CLAIMS_PER_KEY: '1', SERVICE_WAITING_CLAIMS: '2' },
      database: service.database,
    });
    const { port } = new URL(limited.url);
    const connections: RawConnection[] = [];
    const hold = async (key: string): Promise<void> => {
      const connection = await RawConnection.open(Number(port));
      connections.push(connection);
      connection.send(requestText('POST', '/workers/held/claim?wait=30', { 'X-API-Key': key }));
      await untilHeld(connections.length);
    };
    const untilHeld = async (count: number): Promise<void> => {
      const { held } = limited.app.get(ClaimQuota);
      if (held === count) return;
      await sleep(10);
      await untilHeld(count);
    };
    const claimAs = (key: string, seconds: number): Promise<TestAnswer> =>
      limited.send('POST', `/workers/held/claim?wait=${seconds}`, { key });
    await hold(KEYS.worker);
    const refused = await claimAs(KEYS.worker, 1);
    assert.equal(refused.status, 429);
    assert.deepEqual(refused.body, {
      detail: 'Too many waiting claims of this API key: at most 1 (SERVICE_WAITING_CLAIMS_PER_KEY)',
    });
    assert.ok(Number(refused.headers.get('retry-after')) >= 1);
    assert.equal((await claimAs(KEYS.worker, 0)).status, 200, 'a claim that does not wait needs no place');
    await hold(KEYS.admin);
    const made = await limited.send('POST', '/api-keys', { body: { name: 'third', scopes: ['worker'] } });
    const full = await claimAs(made.body.key, 1);
    assert.deepEqual(
      [full.status, full.body.detail],
      [503, 'Too many waiting claims: at most 2 (SERVICE_WAITING_CLAIMS)'],
    );
    for (const connection of connections) connection.destroy();
    await untilHeld(0);
    assert.equal((await claimAs(KEYS.worker, 1)).status, 200);
    await limited.close();
  });

  test('takes whole seconds from 0 to 30', async () => {
    for (const value of ['-1', '31', '1.5', 'x', '1e1', '%201']) {
      assertInvalid(await claim('w', value), ['wait must be an integer from 0 to 30']);
    }
  });
});
