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
  let bulk: BulkSteps;

  beforeAll(async () => {
    bulk = new BulkSteps(service.send);
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

  test('without max, and with max=1, gets one', async () => {
    const ids = await bulk.ids(3);
    assert.deepEqual(idsOf(await steps.claim('w')), ids.slice(0, 1));
    assert.deepEqual(idsOf(await bulk.claim('w', 1)), ids.slice(1, 2));
  });

  for (const max of ['0', '101', '-1', '1.5', 'x', '', '1e2', '+5', '007']) {
    test(`of max=${max} is refused, and the run stays`, async () => {
      const run = await steps.create();
      const answer = await service.send('POST', `/workers/w/claim?max=${encodeURIComponent(max)}`);
      assertInvalid(answer, [max === '' ? 'max must not be empty' : 'max must be an integer from 1 to 100']);
      assert.deepEqual(await steps.get(run.id), run);
    });
  }

  test('of an unknown worker gets none', async () => {
    const run = await steps.create();
    assert.deepEqual(await bulk.claim('nobody', 10), []);
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

    test('leaves to the others what is beyond its own max, and they all get theirs', async () => {
      const claims = [
        bulk.claim('w', 2, { wait: 30 }),
        bulk.claim('v', 2, { wait: 30 }),
        bulk.claim('w', 1, { wait: 30 }),
      ];
      const ids = await bulk.ids(5);
      const got = (await Promise.all(claims)).map(idsOf);
      assert.deepEqual(got.flat().toSorted(), ids);
      assert.deepEqual(
        got.map(({ length }) => length).toSorted((a, b) => a - b),
        [1, 2, 2],
      );
    });

    test('gets nothing that another took before, and waits on for the next', async () => {
      const many = bulk.claim('w', 100, { wait: 30 });
      const few = bulk.claim('v', 100, { wait: 30 });
      const first = await bulk.ids(4);
      const winner = await Promise.race([many, few]);
      const loser = Promise.all([many, few]).then((all) => all.find((ops) => ops !== winner));
      assert.deepEqual(idsOf(winner), first, 'one worker was woken and took them all');
      const next = await bulk.ids(1);
      assert.deepEqual(idsOf((await loser) ?? []), next);
    });
  });
});

describe('a claim of several runs by the strategy fit', () => {
  const service = useTestApp({ env: { SERVICE_SCHEDULER: 'fit', SERVICE_WORKER_TIMEOUT: '600' } });
  const steps = new RunSteps(service.send);
  let bulk: BulkSteps;

  beforeAll(async () => {
    bulk = new BulkSteps(service.send);
    await steps.heartbeat('w', { resources: { cpu_cores: 4, ram_mb: 100, gpus: [] } });
  });

  test('gets at most that many, though more would fit, and the rest with the next', async () => {
    const ids = await bulk.ids(6, { constraints: { cpu: 1 } });
    assert.deepEqual(idsOf(await bulk.claim('w', 3)), ids.slice(0, 3));
    assert.deepEqual(idsOf(await bulk.claim('w', 3)), ids.slice(3, 4), 'no more than fit');
    assert.deepEqual(await bulk.claim('w', 3), []);
    await bulk.report(
      'w',
      ids.slice(0, 4).map((run_id) => ({ run_id, type: 'COMPLETED', msg: '' })),
    );
    assert.deepEqual(idsOf(await steps.claim('w')), ids.slice(4), 'without max as many as fit');
  });

  test('that waits is woken by the room that the end of its runs makes', async () => {
    for (const { id } of (await service.send('GET', '/runs?limit=100')).body.data) {
      await service.send('POST', `/runs/${id}/cancel`);
    }
    const [large = ''] = await bulk.ids(1, { constraints: { cpu: 4 } });
    assert.deepEqual(idsOf(await bulk.claim('w', 5)), [large]);
    const small = await bulk.ids(3, { constraints: { cpu: 2 } });
    const waiting = bulk.claim('w', 5, { wait: 30 });
    await bulk.report('w', [{ run_id: large, type: 'COMPLETED', msg: '' }]);
    assert.deepEqual(idsOf(await waiting), small.slice(0, 2));
  });
});
