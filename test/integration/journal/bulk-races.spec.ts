import assert from 'node:assert/strict';
import { afterAll, beforeAll, beforeEach, describe, test } from 'vitest';
import { rows } from '../../../src/database/sql/sql.js';
import { BulkSteps } from '../../support/runs/bulk-steps.js';
import { checkInvariants } from '../../support/runs/run-invariants.js';
import { RunSteps } from '../../support/runs/run-steps.js';
import { startTestApp, type TestApp } from '../../support/app/test-app.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const idsOf = (ops: readonly { id: string }[]): string[] => ops.map(({ id }) => id);

/** 60 runs, of which each third is of the caller's own. */
const batch = (who: string): object[] =>
  Array.from({ length: 60 }, (_, i) => ({ image: i % 3 === 0 ? who : 'both' }));

describe('bulk calls that race, on two processes', () => {
  const database = useTestDatabase();
  let apps: TestApp[];

  beforeAll(async () => {
    const env = { SERVICE_WORKER_TIMEOUT: '600' };
    apps = [await startTestApp({ database, env }), await startTestApp({ database, env })];
    for (const { send } of apps) {
      for (let i = 0; i < 20; i += 1) await new RunSteps(send).heartbeat(`w${i}`);
    }
  });
  beforeEach(async () => {
    await database.dataSource.query('truncate runs, dependencies, attempts, events, queue, idempotency_keys');
  });
  afterAll(async () => {
    for (const app of apps) await app.close();
  });

  const on = (i: number): BulkSteps => new BulkSteps((apps[i % 2] ?? apps[0])?.send ?? assert.fail());

  const count = async (table: 'runs' | 'events' | 'queue'): Promise<number> => {
    const [row] = await rows<{ n: number }>(
      database.dataSource,
      `select count(*)::integer as n from ${table}`,
    );
    return row?.n ?? -1;
  };

  test('the same batch of runs sent eight times at once creates each once, and every answer names the same runs', async () => {
    const runs = Array.from({ length: 100 }, (_, i) => ({ image: 'i', inputs: { i } }));
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, i) => on(i).create(runs, { key: 'same', minimal: true })),
    );
    assert.equal(await count('runs'), 100);
    assert.equal(await count('queue'), 100);
    const [first = []] = answers;
    for (const answer of answers) assert.deepEqual(idsOf(answer), idsOf(first));
    for (const place of first.keys()) {
      const fresh = answers.filter((answer) => answer[place].replayed === undefined);
      assert.equal(fresh.length, 1, 'one of the answers made the run, the others repeat it');
    }
  });

  test('two batches with one key that differ in some items: the first of each item wins, and nothing stands twice', async () => {
    const [a, b] = await Promise.all([
      on(0).create(batch('a'), { key: 'differ' }),
      on(1).create(batch('b'), { key: 'differ' }),
    ]);
    assert.equal(await count('runs'), 60);
    for (let i = 0; i < 60; i += 1) {
      const statuses = [a[i].status, b[i].status].toSorted((one, other) => one - other);
      assert.deepEqual(statuses, i % 3 === 0 ? [201, 409] : [201, 201], `item ${i}`);
      if (i % 3 !== 0) assert.equal(a[i].run.id, b[i].run.id);
    }
  });

  test('the same batch of events sent six times at once is recorded once, in order', async () => {
    const ids = await on(0).ids(30);
    const got = await on(0).claim('w0', 30);
    assert.equal(got.length, 30);
    const events = ids.flatMap((run_id) => [
      { run_id, type: 'STARTED', msg: '', payload: { worker_id: 'w0' } },
      { run_id, type: 'PROGRESS', msg: 50 },
      { run_id, attempt: 1, type: 'COMPLETED', msg: '' },
    ]);
    const answers = await Promise.all(
      Array.from({ length: 6 }, (_, i) => on(i).report('w0', events, { key: 'events' })),
    );
    assert.ok(answers.flat().every(({ status }) => status === 204));
    assert.equal(answers.flat().filter(({ replayed }) => replayed === undefined).length, 90);
    const timelines = await rows<{ types: string[] }>(
      database.dataSource,
      'select array_agg(type order by index) as types from events group by run_id',
    );
    assert.equal(timelines.length, 30);
    for (const { types } of timelines) assert.deepEqual(types, ['STARTED', 'PROGRESS', 'COMPLETED']);
    await checkInvariants(database.dataSource);
  });

  test('200 claims of 1 to 40 on 1,000 runs hand out each exactly once, and nobody gets more than was asked for', async () => {
    for (let i = 0; i < 10; i += 1) await on(i).ids(100, { priority: i % 4 });
    const claims = await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        const max = 1 + ((i * 7) % 40);
        return { max, worker: `w${i % 20}`, ops: await on(i).claim(`w${i % 20}`, max) };
      }),
    );
    for (const { max, ops } of claims) assert.ok(ops.length <= max);
    const handed = claims.flatMap(({ ops }) => idsOf(ops));
    assert.equal(new Set(handed).size, handed.length, 'no run twice');
    assert.equal(handed.length, 1000, 'the claims asked for more than there were');
    const assigned = await rows<{ id: string; worker: string }>(
      database.dataSource,
      `select id, worker_id as worker from runs where state = 'ASSIGNED'`,
    );
    const workerOf = new Map(assigned.map(({ id, worker }) => [id, worker]));
    for (const { worker, ops } of claims) {
      for (const id of idsOf(ops)) assert.equal(workerOf.get(id), worker);
    }
    await checkInvariants(database.dataSource);
  });

  test('twenty workers that wait for up to fifty each get all of what many batches bring, once', async () => {
    const handed: string[] = [];
    const over = new AbortController();
    const workers = Array.from({ length: 20 }, async (_, i) => {
      while (!over.signal.aborted) handed.push(...idsOf(await on(i).claim(`w${i}`, 50, { wait: 1 })));
    });
    const created: string[] = [];
    for (let i = 0; i < 12; i += 1) created.push(...(await on(i).ids(1 + ((i * 37) % 100))));
    while (handed.length < created.length) await new Promise((resolve) => setTimeout(resolve, 10));
    over.abort();
    await Promise.all(workers);
    assert.deepEqual(handed.toSorted(), created.toSorted());
    assert.equal(await count('queue'), 0);
  });
});
