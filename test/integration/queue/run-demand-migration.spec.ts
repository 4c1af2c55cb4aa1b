import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { DataSource } from 'typeorm';
import { CountDemand1795000000009 } from '../../../migrations/009-count-demand.js';
import { RestrictQueue1795000000022 } from '../../../migrations/022-restrict-queue.js';
import { CountDemandByRequirements1795000000025 } from '../../../migrations/025-count-demand-by-requirements.js';
import { MIGRATIONS } from '../../../migrations/all.js';
import { connectDatabase } from '../../../src/database/connections/connect.js';
import { migrate } from '../../../src/database/migrate.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { readDemand } from '../../../src/runs/counts/run-demand.reader.js';
import { changeOn, claimOn, createOn, eventCommand, journalOn } from '../../support/runs/journal.js';
import { until } from '../../support/service-process.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

/** Those that depend on the migration. */
const DEPENDENT = new Set([RestrictQueue1795000000022, CountDemandByRequirements1795000000025]);
const INDEPENDENT = MIGRATIONS.filter((migration) => !DEPENDENT.has(migration));
const FAILED = eventCommand({ type: 'FAILED', msg: '' });
const BACK_OFF = { maxAttempts: 1000, backoffS: 3600 };

/** The tables that every claim reads, without the triggers that depend on the migration. */
async function addRestrictedQueue(dataSource: DataSource): Promise<void> {
  const counts = 'function count_queued_runs()';
  await execute(
    dataSource,
    `create ${counts} returns trigger language plpgsql as $$ begin return null; end $$`,
  );
  const runner = dataSource.createQueryRunner();
  try {
    await new RestrictQueue1795000000022().up(runner);
  } finally {
    await runner.release();
  }
  await execute(dataSource, `drop ${counts} cascade`);
}

describe('the migration that begins to count pending runs by their shape', () => {
  let database: TestDatabase;
  let source: DataSource;

  beforeAll(async () => {
    database = await openTestDatabase({
      migrations: INDEPENDENT.filter((migration) => migration !== CountDemand1795000000009),
    });
    await addRestrictedQueue(database.dataSource);
    source = await connectDatabase(
      { url: database.url, poolSize: 2, applicationName: 'test', entities: [], migrations: INDEPENDENT },
      { timeoutMs: 120_000 },
    );
  });
  afterAll(async () => {
    await source.destroy();
    await database.close();
  });

  const counted = async (): Promise<object[]> =>
    rows(
      database.dataSource,
      `select cpu, count(*) filter (where not_before is null)::integer as ready,
              count(*) filter (where not_before is not null)::integer as waiting
         from runs
        where state = 'PENDING'
        group by cpu
        order by cpu`,
    );

  const told = async (): Promise<object[]> => {
    const { shapes } = await readDemand(database.dataSource, 100);
    return shapes
      .filter(({ ready, waiting }) => ready + waiting > 0)
      .toSorted((a, b) => a.cpu - b.cpu)
      .map(({ cpu, ready, waiting }) => ({ cpu, ready, waiting }));
  };

  test('counts what there is, and every commit of programs that go on beside it', async () => {
    const sources = await Promise.all([database.open(), database.open()]);
    const over = new AbortController();
    let moved = 0;
    const writing = sources.map(async (one) => {
      const { journal } = journalOn(one);
      for (let n = 0; !over.signal.aborted; n += 1) {
        await Promise.all([
          createOn(journal, { cpu: n % 3 }),
          createOn(journal, { cpu: n % 3, ...BACK_OFF }),
        ]);
        const claimed = (await Promise.all([claimOn(journal, 'w'), claimOn(journal, 'w')])).flat();
        if (n % 2 === 0) await Promise.all(claimed.map(({ run }) => changeOn(journal, run.id, FAILED)));
        moved += claimed.length;
      }
    });
    const written = (count: number): Promise<void> =>
      until(async () => Promise.resolve(moved >= count), `${count} runs were claimed`);
    try {
      await written(20);
      assert.deepEqual(await migrate(source), [CountDemand1795000000009.name]);
      await written(moved + 20);
    } finally {
      over.abort();
      await Promise.all(writing);
    }
    const shapes = await counted();
    assert.equal(shapes.length, 3);
    assert.deepEqual(await told(), shapes);
  });

  test('can be taken back, and run again', async () => {
    await source.undoLastMigration();
    const { journal } = journalOn(database.dataSource);
    await createOn(journal, { cpu: 77 });
    await claimOn(journal, 'w');
    await migrate(source);
    assert.deepEqual(await told(), await counted());
  });
});
