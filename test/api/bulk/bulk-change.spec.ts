import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { TestAnswer } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const UNKNOWN = '019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b';
const LOCKED = { status: 400, error: { detail: 'Run is already in terminal state CANCELLED' } };

describe('many runs cancelled or retried by one request', () => {
  const service = useTestApp();

  const create = async (): Promise<string> =>
    (await service.send('POST', '/runs', { body: { image: 'i' } })).body.id;
  const run = async (id: string): Promise<Record<string, unknown>> =>
    (await service.send('GET', `/runs/${id}`)).body;
  const ask = (what: 'cancel' | 'retry', ids: unknown, key?: string): Promise<TestAnswer> =>
    service.send('POST', `/runs/batch/${what}`, {
      body: { ids },
      ...(key === undefined ? {} : { headers: { 'Idempotency-Key': key } }),
    });

  test('are each answered at their places, as they would be alone', async () => {
    const [one, two] = [await create(), await create()];
    const { status, body } = await ask('cancel', [one, UNKNOWN, 'no id', one, two]);
    assert.equal(status, 200);
    assert.deepEqual(body.results, [
      { status: 204 },
      { status: 404, error: (await service.send('POST', `/runs/${UNKNOWN}/cancel`)).body },
      { status: 404, error: (await service.send('POST', '/runs/no%20id/cancel')).body },
      LOCKED,
      { status: 204 },
    ]);
    for (const id of [one, two]) {
      const { state, events } = await run(id);
      assert.equal(state, 'CANCELLED');
      const alone = await create();
      await service.send('POST', `/runs/${alone}/cancel`);
      assert.deepEqual(entriesOf(events), entriesOf((await run(alone))['events']));
    }
  });

  test('get another attempt each, whatever state they are in', async () => {
    const [one, two] = [await create(), await create()];
    await ask('cancel', [two]);
    assert.deepEqual((await ask('retry', [one, two])).body.results, [{ status: 204 }, { status: 204 }]);
    for (const id of [one, two]) {
      const { state, current_attempt: attempt, events } = await run(id);
      assert.deepEqual([state, attempt], ['PENDING', 2]);
      assert.deepEqual(entriesOf(events).at(-1), ['RETRIED', 'Manual retry', { force: true }]);
    }
  });

  test('are changed once by a request that is sent again with its key', async () => {
    const ids = [await create(), await create()];
    await ask('retry', ids, 'again');
    const { body } = await ask('retry', ids, 'again');
    assert.deepEqual(body.results, [
      { status: 204, replayed: true },
      { status: 204, replayed: true },
    ]);
    for (const id of ids) assert.equal((await run(id))['current_attempt'], 2);
    const [first = ''] = ids;
    const other = await ask('retry', [await create(), first], 'again');
    assert.deepEqual(
      other.body.results.map(({ status }: { status: number }) => status),
      [409, 409],
      'another run at the same place',
    );
  });

  test('are 1 to 100 ids, or nothing is done at all', async () => {
    const id = await create();
    for (const ids of [[], Array.from({ length: 101 }, () => id), [id, 5], [id, ''], id, null, undefined]) {
      const { status, body } = await ask('cancel', ids);
      assert.equal(status, 400);
      assert.match(body.errors[0], /^ids (?:must be a list of 1 to 100 items|is required)/);
    }
    const { status } = await service.send('POST', '/runs/batch/cancel', { body: { ids: [id], why: 'x' } });
    assert.equal(status, 400);
    assert.equal((await run(id))['state'], 'PENDING');
    assert.equal(
      (
        await ask(
          'cancel',
          Array.from({ length: 100 }, () => id),
        )
      ).status,
      200,
    );
  });
});

function entriesOf(events: unknown): unknown[] {
  assert.ok(Array.isArray(events));
  return events.map(({ type, msg, payload }) => [type, msg, payload]);
}
