import assert from 'node:assert/strict';
import { beforeAll, beforeEach, describe, test } from 'vitest';
import { assertInvalid } from '../../support/http/answer-shapes.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { useTestApp } from '../../support/app/use-test-app.js';

const idsOf = (ops: readonly { id: string }[]): string[] => ops.map(({ id }) => id);

describe('a claim of several runs', () => {
  const service = useTestApp({ env: { SERVICE_WORKER_TIMEOUT: '600' } });
  const steps = new RunSteps(service.send);
  const bulk = new BulkSteps(service.send);

  beforeAll(async () => {
    await steps.heartbeat('w');
    await steps.heartbeat('v');
  });
  beforeEach(() => steps.emptyQueue());

  test('gets as many as it asks for from the head of the queue, in order', async () => {
    const [low = '', high = '', middle = ''] = [
      ...(await bulk.ids(1, { priority: -1 })),
      ...(await bulk.ids(1, { priority: 9 })),
      ...(await bulk.ids(1, { priority: 4 })),
    ];
    const plain = await bulk.ids(3);
    assert.deepEqual(idsOf(await bulk.claim('w', 4)), [high, middle, plain[0], plain[1]]);
    assert.deepEqual(idsOf(await bulk.claim('w', 100)), [plain[2], low]);
    assert.deepEqual(await bulk.claim('w', 100), []);
  });

  test('gets each with all that its worker needs, as a claim of one does', async () => {
    const wish = { image: 'x', inputs: { a: 1 }, constraints: { cpu: 3 }, priority: 5 };
    const ids = [...(await bulk.ids(2, wish)), (await steps.create(wish)).id];
    const [one, two] = await bulk.claim('w', 2);
    const [alone] = await steps.claim('w');
    assert.deepEqual(
      [
        { ...one, id: '' },
        { ...two, id: '' },
      ],
      [
        { ...alone, id: '' },
        { ...alone, id: '' },
      ],
    );
    assert.deepEqual(idsOf([one, two, alone]), ids);
    for (const id of ids) {
      const { state, execution_summary: summary } = await steps.get(id);
      assert.deepEqual([state, summary.worker_id], ['ASSIGNED', 'w']);
    }
  });

  test('gets 100, the most there are for one claim', async () => {
    const ids = await bulk.ids(100);
    const [last] = await bulk.ids(1);
    assert.deepEqual(idsOf(await bulk.claim('w', 100)), ids);
    assert.deepEqual(idsOf(await steps.claim('w')), [last]);
  });

  test('of a max that is none is refused, and the run stays', async () => {
    const run = await steps.create();
    for (const max of ['0', '101', '-1', '1.5', 'x', '1e2', '+5', '007']) {
      const answer = await service.send('POST', `/workers/w/claim?max=${encodeURIComponent(max)}`);
      assertInvalid(answer, ['max must be an integer from 1 to 100']);
    }
    assert.deepEqual(await steps.get(run.id), run);
  });

  test('sent again with its key gets its runs that are still with the worker, in their order, and no others', async () => {
    const ids = await bulk.ids(5);
    const first = await bulk.claim('w', 4, { key: 'claim' });
    assert.deepEqual(idsOf(first), ids.slice(0, 4));
    assert.deepEqual(await bulk.claim('w', 4, { key: 'claim' }), first);
    await steps.event(ids[1] ?? '', 'COMPLETED');
    await service.send('POST', `/runs/${ids[2]}/retry`);
    for (const max of [1, 100]) {
      assert.deepEqual(idsOf(await bulk.claim('w', max, { key: 'claim' })), [ids[0], ids[3]]);
    }
    assert.deepEqual(idsOf(await bulk.claim('w', 4, { key: 'next' })), [ids[2], ids[4]]);
  });

  describe('that waits', () => {
    test('returns as soon as one is there, with all that one commit brings', async () => {
      const waiting = bulk.claim('w', 10, { wait: 30 });
      const ids = await bulk.ids(3);
      assert.deepEqual(idsOf(await waiting), ids);
    });
  });
});
