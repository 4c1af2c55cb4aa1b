import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { since } from '../../support/monitoring/metrics.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { KEYS } from '../../support/app/test-app.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const OTHER_BODY = 'Idempotency-Key was used with another request body';
const LENGTH_RULE = 'runs must be a list of 1 to 100 items';

describe('creating many runs at once', () => {
  const service = useTestApp({ env: { SERVICE_MAX_BODY_BYTES: '65536' } });
  const twin = useTestApp(() => ({ database: service.database }));
  const steps = new RunSteps(service.send);
  const bulk = new BulkSteps(service.send);

  const count = async (table: 'runs' | 'queue' | 'idempotency_keys'): Promise<number> => {
    const [row] = await rows<{ n: number }>(
      service.dataSource,
      `select count(*)::integer as n from ${table}`,
    );
    return row?.n ?? -1;
  };

  test('takes 1 and 100 of them', async () => {
    assert.equal((await bulk.ids(1)).length, 1);
    assert.equal(new Set(await bulk.ids(100)).size, 100);
  });

  test('commits them in one group', async () => {
    const earlier = await bulk.groups();
    await bulk.ids(100);
    assert.deepEqual(since(earlier, await bulk.groups()), { count: 1, sum: 100 });
  });

  test('puts them into the queue in their order', async () => {
    await steps.emptyQueue();
    const ids = await bulk.ids(20);
    assert.deepEqual(
      (await bulk.claim('w', 20)).map((op) => op.id),
      ids.toSorted(),
    );
    assert.deepEqual(ids, ids.toSorted(), 'ids rise in the order of the request, and equal ages go by id');
  });

  test('with return=minimal answers ids', async () => {
    const results = await bulk.create([{ image: 'a' }, { image: '' }, { image: 'b' }], { minimal: true });
    assert.deepEqual(
      results.map(({ status }) => status),
      [201, 400, 201],
    );
    assert.equal((await steps.get(results[0].id)).image, 'a');
    assert.equal((await steps.get(results[2].id)).image, 'b');
  });

  describe('a bad item', () => {
    test('among bad ones only is a 200 all the same, and makes nothing', async () => {
      const runs = await count('runs');
      const results = await bulk.create([{}, 1, null]);
      assert.deepEqual(
        results.map(({ status }) => status),
        [400, 400, 400],
      );
      assert.equal(await count('runs'), runs);
    });
  });

  describe('is refused as a whole, and makes nothing,', () => {
    for (const [title, body, errors] of [
      ['without runs', {}, ['runs is required']],
      ['with null for runs', { runs: null }, ['runs is required']],
      ['with no run', { runs: [] }, [LENGTH_RULE]],
      ['with 101 runs', { runs: Array.from({ length: 101 }, () => ({ image: 'i' })) }, [LENGTH_RULE]],
      ['with an object of runs', { runs: { 0: { image: 'i' } } }, [LENGTH_RULE]],
      [
        'with another field',
        { runs: [{ image: 'i' }], atomic: true, 'a b': 1 },
        ['atomic is not a known field', '["a b"] is not a known field'],
      ],
      ['as a list', [{ image: 'i' }], ['the body must be a JSON object']],
    ] as const) {
      test(title, async () => {
        const runs = await count('runs');
        assertInvalid(await service.send('POST', '/runs/batch', { body }), errors);
        assert.equal(await count('runs'), runs);
      });
    }
  });

  describe('with an Idempotency-Key', () => {
    test('sent again creates nothing twice, in any process, and shows the runs as they are now', async () => {
      const wishes = [{ image: 'a', inputs: { n: 1 } }, { image: 'b' }, { image: 'a', inputs: { n: 1 } }];
      const first = await bulk.create(wishes, { key: 'again' });
      assert.equal(new Set(first.map(({ run }) => run.id)).size, 3, 'equal items are two runs');
      const cancelled = (await service.send('POST', `/runs/${first[1].run.id}/cancel`)).body;
      const runs = await count('runs');
      for (const side of [bulk, new BulkSteps(twin.send)]) {
        assert.deepEqual(await side.create(wishes, { key: 'again' }), [
          { status: 201, run: first[0].run, replayed: true },
          { status: 201, run: cancelled, replayed: true },
          { status: 201, run: first[2].run, replayed: true },
        ]);
        const ids = await side.create(wishes, { key: 'again', minimal: true });
        assert.deepEqual(
          ids,
          first.map(({ run }) => ({ status: 201, id: run.id, replayed: true })),
        );
      }
      assert.equal(await count('runs'), runs);
    });

    test('compares each item by its own content: what changed is 409, what was refused before is free, what is new is created', async () => {
      const first = await bulk.create([{ image: 'a' }, { image: '' }, { image: 'c' }], { key: 'mixed' });
      const runs = await count('runs');
      const again = await bulk.create(
        [{ image: 'A' }, { image: 'b' }, { image: 'c', inputs: undefined }, { image: 'd' }],
        { key: 'mixed' },
      );
      assert.deepEqual(again[0], { status: 409, error: { detail: OTHER_BODY } });
      assert.deepEqual([again[1].run.image, again[1].replayed], ['b', undefined]);
      assert.deepEqual([again[2].run.id, again[2].replayed], [first[2].run.id, true]);
      assert.deepEqual([again[3].run.image, again[3].replayed], ['d', undefined]);
      assert.equal(await count('runs'), runs + 2);
    });

    test('belongs to the API key and to the route', async () => {
      const [one] = await bulk.create([{ image: 'i' }], { key: 'mine' });
      const headers = { 'Idempotency-Key': 'mine' };
      const alone = await service.send('POST', '/runs', { body: { image: 'i' }, headers });
      assert.equal(alone.headers.get('idempotency-replayed'), null);
      const body = { runs: [{ image: 'i' }] };
      const other = await service.send('POST', '/runs/batch', { body, headers, key: KEYS.client });
      const ids = [one.run.id, alone.body.id, other.body.results[0].run.id];
      assert.equal(new Set(ids).size, 3);
    });
  });
});
