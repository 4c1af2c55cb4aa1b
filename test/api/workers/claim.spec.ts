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

  test('is an empty list for an unknown worker, whatever its id, and the run stays', async () => {
    const run = await steps.create();
    for (const id of ['nobody', 'a b', '-w', 'x'.repeat(500), '__proto__', '../w'])
      assert.deepEqual(await steps.claim(id), [], id);
    assertInvalid(await service.send('POST', '/workers/w/claim?limit=5'), [
      'limit is not a known query parameter',
    ]);
    assertError(await service.send('POST', '/workers/%00/claim'), 404, 'Not found');
    assert.deepEqual(await steps.get(run.id), run);
  });

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

/** Waits for something that comes by itself. */
async function until(happened: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 800; tries += 1) {
    if (await happened()) return;
    await sleep(25);
  }
  assert.fail('it does not happen');
}
