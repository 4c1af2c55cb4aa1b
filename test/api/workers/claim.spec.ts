import assert from 'node:assert/strict';
import { beforeEach, describe, test } from 'vitest';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertError, assertInvalid, bodyOf } from '../../support/http/answer-shapes.js';
import { RawConnection, requestText } from '../../support/http/raw-http.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

describe('a claim', () => {
  const service = useTestApp();
  const steps = new RunSteps(service.send);

  beforeEach(() => steps.emptyQueue());

  const idsOfClaims = async (count: number): Promise<string[]> => {
    const ids: string[] = [];
    for (let i = 0; i < count; i += 1) ids.push(...(await steps.claim()).map((op) => op.id));
    return ids;
  };

  test('takes whatever the constraints ask, for the direct strategy looks at the order alone', async () => {
    const { id } = await steps.create({ constraints: { ram_mb: 2 ** 31 - 1, cpu: 1000 } });
    assert.deepEqual(await idsOfClaims(1), [id]);
  });

  test('orders runs of equal age by id', async () => {
    const created = await Promise.all(Array.from({ length: 40 }, () => steps.create()));
    const times = created.map((run) => String(run.createdAt));
    assert.ok(new Set(times).size < 40, 'some were created in one group');
    const expected = created
      .map((run) => `${run.createdAt} ${run.id}`)
      .toSorted()
      .map((key) => key.split(' ')[1]);
    assert.deepEqual(await idsOfClaims(40), expected);
  });

  test('keeps a retried run at the place of its creation', async () => {
    const retried = await steps.create();
    const other = await steps.create();
    await service.send('POST', `/runs/${retried.id}/retry`);
    assert.deepEqual(await idsOfClaims(2), [retried.id, other.id]);
  });

  for (const id of ['nobody', 'a b', '-w', 'x'.repeat(500), '__proto__', '../w']) {
    test(`is an empty list for the unknown worker ${JSON.stringify(id).slice(0, 30)}, and the run stays`, async () => {
      const run = await steps.create();
      assert.deepEqual(await steps.claim(id), []);
      assert.deepEqual(await steps.get(run.id), run);
    });
  }

  for (const id of ['a/b', 'host:1/gpu-0', 'A.b_c-d:e/f', 'heartbeat']) {
    test(`is open to a worker named ${id}`, async () => {
      await steps.heartbeat(id);
      const run = await steps.create();
      assert.deepEqual(
        (await steps.claim(id)).map((op) => op.id),
        [run.id],
      );
      assert.equal((await steps.get(run.id)).execution_summary.worker_id, id);
      assert.equal((await steps.event(run.id, 'STARTED', { worker_id: id })).state, 'RUNNING');
    });
  }

  test('needs no body and ignores one', async () => {
    const { id } = await steps.create();
    const answer = await service.send('POST', '/workers/w/claim', {
      body: 'whatever',
      headers: { 'Content-Type': 'text/plain' },
    });
    assert.deepEqual(
      bodyOf(answer, 'ClaimedOps').ops.map((op: { id: string }) => op.id),
      [id],
    );
  });

  test('refuses a query that it does not know, and hands nothing out', async () => {
    const run = await steps.create();
    const answer = await service.send('POST', '/workers/w/claim?limit=5');
    assertInvalid(answer, ['limit is not a known query parameter']);
    assert.deepEqual(await steps.get(run.id), run);
  });

  test('with NUL in the path names nobody', async () => {
    assertError(await service.send('POST', '/workers/%00/claim'), 404, 'Not found');
  });

  test('of a caller that has gone away hands nothing out', async () => {
    const busy = await steps.create({ priority: -1 });
    const { id } = await steps.create();
    const holder = service.dataSource.createQueryRunner();
    await holder.startTransaction();
    await holder.query('select 1 from runs where id = $1 for update', [busy.id]);
    const held = steps.note(busy.id);
    const others = await openConnections();
    const caller = await RawConnection.open(Number(new URL(service.url).port));
    caller.send(requestText('POST', '/workers/w/claim', { 'X-API-Key': KEYS.worker }));
    await sleep(100);
    caller.destroy();
    await until(async () => (await openConnections()) <= others);
    await holder.rollbackTransaction();
    await holder.release();
    await held;
    assert.equal((await steps.get(id)).state, 'PENDING');
    assert.deepEqual(await idsOfClaims(1), [id]);
  });

  function openConnections(): Promise<number> {
    return new Promise((resolve, reject) => {
      service.app.getHttpServer().getConnections((error: Error | null, count: number) => {
        if (error) reject(error);
        else resolve(count);
      });
    });
  }
});

describe('a worker that falls silent', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '0.75' } });
  const steps = new RunSteps(service.send);

  test('is listed as inactive after the timeout, gets nothing, and gets work again after a heartbeat', async () => {
    const first = await steps.heartbeat();
    assert.equal(first.is_active, true);
    const { id } = await steps.create();
    await until(async () => !bodyOf(await service.send('GET', '/workers'), 'Workers')[0].is_active);
    assert.deepEqual(await steps.claim(), []);
    const got: string[] = [];
    // A loaded machine may need more than the timeout between the two.
    for (let tries = 0; tries < 20 && got.length === 0; tries += 1) {
      const again = await steps.heartbeat();
      assert.deepEqual([again.is_active, again.created_at], [true, first.created_at]);
      got.push(...(await steps.claim()).map((op) => op.id));
    }
    assert.deepEqual(got, [id]);
  });
});

/** Waits for something that comes by itself. */
async function until(happened: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 800; tries += 1) {
    if (await happened()) return;
    await sleep(25);
  }
  assert.fail('it does not happen');
}
