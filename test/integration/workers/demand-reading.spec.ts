import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, test } from 'vitest';
import type { DataSource, EntityManager } from 'typeorm';
import { execute } from '../../../src/database/sql/sql.js';
import { createRun } from '../../../src/runs/machine/run.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import {
  claimOn,
  createOn,
  eventCommand,
  freshRun,
  journalOn,
  openJournal,
} from '../../support/runs/journal.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';
import { demandReaderOn } from '../../support/workers/demand.js';

describe('a reading of the demand of runs', () => {
  let database: TestDatabase;

  beforeEach(async () => {
    database = await openTestDatabase();
  });
  afterEach(() => database.close());

  test('contains each run once, as pending or as in execution, while several processes move runs', async () => {
    const connections = await Promise.all(Array.from({ length: 4 }, () => openJournal(database)));
    const racing = connections.map((source) => journalOn(source).journal);
    const reader = demandReaderOn(database.dataSource);
    const [first] = racing;
    assert.ok(first);
    const created = await Promise.all(
      Array.from({ length: 40 }, () => createOn(first, { maxAttempts: 1000, backoffS: 3600 })),
    );
    const over = new AbortController();
    const move = async (n: number): Promise<void> => {
      const on = racing[n];
      assert.ok(on);
      for (let round = 0; round < 12; round += 1) {
        const claimed = await Promise.all(Array.from({ length: 5 }, () => claimOn(on, `w-${n}`)));
        const failed = claimed.flat().map(({ run }) => run.id);
        await Promise.all(
          failed.map((id) => on.change(id, eventCommand({ type: 'FAILED', msg: '', payload: {} }))),
        );
        await Promise.allSettled(
          created.slice(n * 10, n * 10 + 10).map(async ({ id }) => {
            await execute(
              database.dataSource,
              'update runs set not_before = created_at where id = $1 and not_before is not null',
              [id],
            );
            await on.change(id, { type: 'elapse' });
          }),
        );
      }
    };
    const stages = new Set<string>();
    const watch = async (): Promise<number> => {
      let looks = 0;
      for (; !over.signal.aborted; looks += 1) {
        const { demand, held } = await reader.read(10);
        const { ready, waiting, inExecution } = demand.all;
        assert.equal(ready.runs + waiting.runs + inExecution.runs, 40);
        assert.equal([...held.values()].flat().length, inExecution.runs);
        for (const [stage, { runs: count }] of Object.entries({ ready, waiting, inExecution }))
          if (count > 0) stages.add(stage);
      }
      return looks;
    };
    const watching = watch();
    try {
      await Promise.all(racing.map((_, n) => move(n)));
    } finally {
      over.abort();
    }
    assert.ok((await watching) > 3);
    assert.equal(stages.size, 3);
  });

  for (const when of ['before', 'after']) {
    test(`reads no more rows than it counts, ${when} statistics were collected`, async () => {
      const { dataSource } = database;
      await execute(
        dataSource,
        `insert into queue (run_id, priority, created_at, cpu_millis, ram_mb, vram_mb)
         select gen_random_uuid(), n % 3, now() + make_interval(secs => n), n % 7, 0, 0 from generate_series(1, 5000) as n`,
      );
      await execute(
        dataSource,
        `with l as (insert into lanes (id, required) values (gen_random_uuid(), '{not-worker:w}') returning id)
         insert into queue (run_id, priority, created_at, cpu_millis, ram_mb, vram_mb, lane)
         select gen_random_uuid(), n % 3, now() + make_interval(secs => n), n % 7, 0, 0, (select id from l)
           from generate_series(1, 5000) as n`,
      );
      const delayed = Array.from({ length: 200 }, (_, n) =>
        createRun(freshRun({ startAt: new Date(Date.UTC(2100, 0, 1) + n) }), new Date()),
      );
      await dataSource.transaction((manager) => new RunRepository().insert(manager, delayed, false));
      if (when === 'after') await execute(dataSource, 'analyze');
      const runner = dataSource.createQueryRunner();
      await runner.startTransaction();
      const send = runner.query.bind(runner);
      let read = 0;
      runner.query = async (sql: string, params?: unknown[]) => {
        const [{ 'QUERY PLAN': plans }] = await send(`explain (analyze, format json) ${sql}`, params);
        read += rowsReadBy(plans[0].Plan);
        return send(sql, params, true);
      };
      const source = {
        transaction: (_: string, work: (on: EntityManager) => unknown) => work(runner.manager),
      };
      try {
        // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- it is all that the reader uses
        const { demand } = await demandReaderOn(source as unknown as DataSource).read(10, 400);
        const { ready, waiting } = demand.all;
        assert.deepEqual([ready.runs, waiting.runs, demand.isAtLeast], [300, 100, true]);
        // Those that are counted, and a lane for each kind of them.
        assert.ok(read < 550, `${read} rows`);
      } finally {
        runner.query = send;
        await runner.rollbackTransaction();
        await runner.release();
      }
    });
  }
});

interface Plan {
  readonly 'Relation Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

/** Rows that the scans of tables in a plan return, and those that they filter. */
function rowsReadBy(plan: Plan): number {
  const each = plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0);
  const own = plan['Relation Name'] === undefined ? 0 : each * plan['Actual Loops'];
  return (plan.Plans ?? []).reduce((sum, part) => sum + rowsReadBy(part), own);
}
