import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, afterEach, beforeAll, describe, test } from 'vitest';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { readDemand, type RunDemand } from '../../../src/runs/counts/run-demand.reader.js';
import { RunDemandRollUp } from '../../../src/runs/counts/run-demand.roll-up.js';
import type { RunJournal } from '../../../src/runs/journal/run-journal.js';
import { changeOn, claimOn, createOn, eventCommand, journalOn } from '../../support/runs/journal.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

const SHAPES = [
  { cpu: 0, ramMb: 0, vramMb: 0 },
  { cpu: 2, ramMb: 4000, vramMb: 0 },
  { cpu: 1, ramMb: 500, vramMb: 8000 },
] as const;

/** Later than anything that the tests do. */
const MUCH_LATER = new Date('2100-01-01T00:00:00.000Z');

describe('the tables that hold the counts of pending runs by what they ask for', () => {
  let database: TestDatabase;
  let journal: RunJournal;

  beforeAll(async () => {
    database = await openTestDatabase();
    ({ journal } = journalOn(database.dataSource));
  });
  afterEach(async () => {
    await database.dataSource.query('truncate runs, queue, run_timers, events, attempts, run_counts');
    await rollUp().runOnce(MUCH_LATER);
    assert.equal(await rowsKept(), 0);
  });
  afterAll(() => database.close());

  const read = (limit = 100): Promise<RunDemand> => readDemand(database.dataSource, limit);
  const rollUp = (): RunDemandRollUp => new RunDemandRollUp(database.dataSource);
  const rowsKept = async (): Promise<number> =>
    (
      await rows<object>(
        database.dataSource,
        'select from run_demand_changes union all select from run_demand',
      )
    ).length;
  const standing = async (): Promise<number[]> => {
    const { ready, waiting } = await read();
    return [ready.runs, waiting.runs];
  };

  test('count what programs do that know nothing of them', async () => {
    const { dataSource } = database;
    await execute(
      dataSource,
      `insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu)
       select gen_random_uuid(), 0, now(), 500, 8000, n % 2
         from generate_series(1, 10) as n`,
    );
    assert.deepEqual((await read()).ready, { runs: 10, cpu: 5, ramMb: 5000, vramMb: 80_000, gpus: 10 });
    // As a program does that restores a backup.
    await dataSource.transaction(async (manager) => {
      await execute(manager, `set local search_path = ''`);
      await execute(
        manager,
        `insert into public.queue (run_id, priority, created_at, ram_mb, vram_mb, cpu)
         values (gen_random_uuid(), 0, now(), 500, 8000, 1)`,
      );
    });
    assert.equal((await read()).ready.runs, 11);
    await execute(dataSource, 'update queue set priority = 7');
    await execute(dataSource, 'delete from queue where cpu = 1');
    assert.deepEqual((await read()).ready, { runs: 5, cpu: 0, ramMb: 2500, vramMb: 40_000, gpus: 5 });
    await dataSource.query('truncate queue');
    assert.deepEqual((await read()).shapes, []);
  });

  test('count runs in back-off that are removed, or put there, by hand', async () => {
    const { dataSource } = database;
    const { id } = await createOn(journal, { ...SHAPES[1], maxAttempts: 2, backoffS: 3600 });
    await createOn(journal, { ...SHAPES[1], maxAttempts: 2, backoffS: 3600 });
    await claimOn(journal, 'w');
    await changeOn(journal, id, eventCommand({ type: 'FAILED', msg: '' }));
    assert.deepEqual(await standing(), [1, 1]);
    await execute(dataSource, 'create temporary table kept as select * from runs where id = $1', [id]);
    await execute(dataSource, 'delete from runs where id = $1', [id]);
    assert.deepEqual(await standing(), [1, 0]);
    await execute(dataSource, 'insert into runs select * from kept');
    assert.deepEqual(await standing(), [1, 1]);
    await dataSource.query('truncate runs cascade');
    assert.deepEqual(await standing(), [1, 0]);
  });

  test('tell the shapes with the most pending runs, and the sums of all', async () => {
    for (let cpu = 1; cpu <= 5; cpu += 1) {
      await Promise.all(Array.from({ length: cpu }, () => createOn(journal, { cpu, vramMb: cpu * 10 })));
    }
    const { shapes, ready } = await read(2);
    assert.deepEqual(
      shapes.map(({ cpu, ready: runs }) => [cpu, runs]),
      [
        [5, 5],
        [4, 4],
      ],
    );
    assert.deepEqual(ready, { runs: 15, cpu: 55, ramMb: 0, vramMb: 550, gpus: 15 });
  });

  test('tell the largest shapes also when others were larger a moment ago', async () => {
    const { dataSource } = database;
    await execute(
      dataSource,
      `insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu)
       select gen_random_uuid(), 0, now(), 0, 0, cpu
         from generate_series(1, 9) as cpu
        cross join lateral generate_series(1, cpu)`,
    );
    await rollUp().runOnce(MUCH_LATER);
    await execute(dataSource, 'delete from queue where cpu > 5');
    await createOn(journal, { cpu: 20 });
    const { shapes, ready } = await read(3);
    assert.deepEqual(
      shapes.map(({ cpu, ready: runs }) => [cpu, runs]),
      [
        [5, 5],
        [4, 4],
        [3, 3],
      ],
    );
    assert.deepEqual([ready.runs, ready.cpu], [16, 75]);
  });

  describe('of seconds that are over', () => {
    test('are summed up in one row a shape, and nothing changes', async () => {
      for (const shape of [...SHAPES, ...SHAPES]) await createOn(journal, shape);
      const counted = byShape((await read()).shapes);
      assert.equal(await rollUp().runOnce(new Date()), 0, 'they may still be written to');
      assert.ok((await rollUp().runOnce(MUCH_LATER)) >= 3);
      assert.equal(await rollUp().runOnce(MUCH_LATER), 0);
      assert.equal(await rowsKept(), 3);
      assert.deepEqual(byShape((await read()).shapes), counted);
    });

    test('leave nothing behind of a shape that no pending run has any more', async () => {
      for (let cpu = 1; cpu <= 20; cpu += 1) await createOn(journal, { cpu });
      await rollUp().runOnce(MUCH_LATER);
      assert.equal(await rowsKept(), 20);
      while ((await claimOn(journal, 'w')).length > 0);
      await rollUp().runOnce(MUCH_LATER);
      assert.equal(await rowsKept(), 0);
    });

    test('pass over rows that somebody is writing to', async () => {
      const other = await database.open();
      await createOn(journal, SHAPES[1]);
      await other.transaction(async (manager) => {
        await execute(manager, 'select from run_demand_changes for update');
        assert.equal(await rollUp().runOnce(MUCH_LATER), 0);
      });
      assert.equal(await rollUp().runOnce(MUCH_LATER), 1);
      assert.equal((await read()).ready.runs, 1);
    });
  });
});

function byShape(shapes: readonly object[]): object[] {
  return shapes.toSorted((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
}
