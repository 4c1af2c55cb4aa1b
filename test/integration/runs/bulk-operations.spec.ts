import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { MAX_MATCHED } from '../../../src/runs/bulk/bulk-operations.repository.js';
import { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { until } from '../../support/app/passing-time.js';
import { KEYS, startTestApp, type TestApp } from '../../support/app/test-app.js';
import { assertError } from '../../support/http/answer-shapes.js';
import { freshRun } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const RUNS = 1_000;

describe('a bulk operation', () => {
  const database = useTestDatabase();
  let service: TestApp;

  beforeAll(async () => {
    service = await startTestApp({ database });
  });
  afterAll(async () => {
    await service.close();
  });

  const seed = (count: number): Promise<unknown> =>
    execute(
      database.dataSource,
      `insert into runs (
         id, state, outcome, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims, max_attempts,
         image, inputs, outputs_template, ram_mb, vram_mb, cpu, queued_at, finished_at, created_at, updated_at, size
       )
       select gen_random_uuid(), 'FAILED', 'FAILED', 0, 0, 1, gen_random_uuid(), 0, 0, 0, 0, 1,
              'image-' || n % 8, '{}', '{}', 0, 0, 0, now(), now(), now(), now(), 4
         from generate_series(1, $1::integer) as n`,
      [count],
    );

  const ask = () =>
    service.send('POST', '/bulk-operations', {
      key: KEYS.client,
      headers: { 'Idempotency-Key': 'the-same' },
      body: { action: 'cancel', filter: { image: 'of nobody' } },
    });

  test('changes each run once with two processes, while others change them, and goes on when one of them ends', async () => {
    const leaving = await startTestApp({ database });
    const journal = service.app.get(RunJournal, { strict: false });
    const runs = Array.from({ length: RUNS }, () => freshRun({ image: 'shared' }));
    await Promise.all(runs.map((run) => journal.create(run)));
    const started = await leaving.send('POST', '/bulk-operations', {
      body: { action: 'retry', filter: { image: 'shared', state: 'PENDING' } },
    });
    const { id, matched } = started.body;
    assert.equal(matched, RUNS);
    const show = async () => (await service.send('GET', `/bulk-operations/${id}`)).body;
    await until(show, ({ done }) => done > 0);
    // The oldest are processed last: most of them have ended by then.
    const ids = runs.slice(0, 25).map((run) => run.id);
    const cancelled = await service.send('POST', '/runs/batch/cancel', { body: { ids } });
    assert.ok(cancelled.body.results.every(({ status }: { status: number }) => status === 204));
    await leaving.close();
    const ended = await until(show, ({ state }) => state === 'done');
    const refused: string[] = ended.refused.map((run: { id: string }) => run.id);
    assert.deepEqual([ended.done + refused.length, ended.remaining], [RUNS, 0]);
    assert.ok(refused.every((run) => ids.includes(run)));
    const once = await rows<{ id: string }>(
      database.dataSource,
      `select id from runs where image = 'shared' and attempt = 1`,
    );
    assert.deepEqual(once.map((run) => run.id).toSorted(), refused.toSorted());
    const more = await rows(database.dataSource, `select from runs where image = 'shared' and attempt > 2`);
    assert.equal(more.length, 0);
  });

  test('waits for others of its API key without connections to the database, which other requests need', async () => {
    const asked = await database.dataSource.transaction(async (manager) => {
      await execute(manager, 'lock table bulk_operations in exclusive mode');
      const waiting = Array.from({ length: 40 }, ask);
      for (let n = 0; n < 20; n += 1) {
        const { status, text } = await service.send('GET', '/runs?limit=1');
        assert.equal(status, 200, text);
      }
      return waiting;
    });
    const answers = await Promise.all(asked);
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [202]);
    assert.equal(new Set(answers.map(({ body }) => body.id)).size, 1);
  });

  test('refuses a run whose change fails in the database, and changes the others', async () => {
    const journal = service.app.get(RunJournal, { strict: false });
    const runs = Array.from({ length: 5 }, () => freshRun({ image: 'broken' }));
    await Promise.all(runs.map((run) => journal.create(run)));
    const broken = runs[2]?.id;
    await execute(
      database.dataSource,
      `create function refuse_update() returns trigger language plpgsql as $$
         begin
           raise exception 'the row is broken';
         end $$;
       create trigger refuse_update before update on runs
          for each row when (old.id = '${broken}') execute function refuse_update();`,
    );
    const started = await service.send('POST', '/bulk-operations', {
      body: { action: 'retry', filter: { image: 'broken', state: 'PENDING' } },
    });
    const show = async () => (await service.send('GET', `/bulk-operations/${started.body.id}`)).body;
    const { done, refused } = await until(show, ({ state }) => state === 'done');
    const detail = 'The run could not be changed: see the log of the service';
    assert.deepEqual([done, refused], [4, [{ id: broken, detail }]]);
    const attempts = await rows<{ attempt: number }>(
      database.dataSource,
      `select attempt from runs where image = 'broken' order by attempt`,
    );
    assert.deepEqual(
      attempts.map(({ attempt }) => attempt),
      [1, 2, 2, 2, 2],
    );
    await execute(database.dataSource, 'drop function refuse_update cascade');
  });

  test(`is refused for more than ${MAX_MATCHED} runs, with the advice to narrow the filter`, async () => {
    await seed(MAX_MATCHED + 1);
    for (const dry_run of [true, false]) {
      const body = { action: 'retry', filter: { 'created[gte]': 1 }, dry_run };
      assertError(
        await service.send('POST', '/bulk-operations', { body }),
        400,
        `The filter matches more than ${MAX_MATCHED} runs: narrow it, for example by created[gte] and created[lt]`,
      );
    }
    const body = { action: 'retry', filter: { image: 'image-2' }, dry_run: true };
    assert.equal((await service.send('POST', '/bulk-operations', { body })).body.matched, MAX_MATCHED / 8);
  });
});
