import 'reflect-metadata';
import assert from 'node:assert/strict';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { execute } from '../../../src/database/sql/sql.js';
import { AvoidingRuns, type AvoidingRunsFound } from '../../../src/runs/queue/avoiding-runs.js';
import { RunRepository } from '../../../src/runs/storage/run.repository.js';
import { createOn, journalOn, queueWith } from '../../support/runs/journal.js';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.js';

/** Runs that avoid a worker, of three shapes that no claimant can hold, and one shape that it can. */
const RUNS = 100_000;
const CLAIMANT = { id: 'w', cpuCores: 4, ramMb: 4096, gpus: [], tags: [], capabilities: [] };

/** Blocks that one look may touch: a few steps in the index for each shape, and the rows of one page. */
const MOST_BLOCKS = 1_500;

describe('a queue with many runs that avoid a worker', () => {
  let database: TestDatabase;
  let last: string;

  beforeAll(async () => {
    database = await openTestDatabase({ entities: ENTITIES });
    const { journal } = journalOn(database.dataSource);
    const { id } = await createOn(journal);
    await execute(
      database.dataSource,
      `insert into run_queue (run_id, priority, created_at, cpu, ram_mb, vram_mb, avoided_worker)
       select gen_random_uuid(), 1, now(), case when n % 10 = 0 then 1 else 8 * (1 + n % 3) end, 0, 0, 'v'
         from generate_series(1, ${RUNS}) as n`,
    );
    last = id;
    await execute(database.dataSource, 'analyze run_queue');
  });
  afterAll(() => database.close());

  /** What a look finds, and the blocks that its statements touch. */
  async function look(cpuCores: number): Promise<[AvoidingRunsFound, number]> {
    const runner = database.dataSource.createQueryRunner();
    const send = runner.query.bind(runner);
    let blocks = 0;
    runner.query = async (sql: string, params?: unknown[]) => {
      const [row] = await send(`explain (analyze, buffers, format json) ${sql}`, params);
      const plan = row['QUERY PLAN'][0].Plan;
      blocks += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
      return send(sql, params, true);
    };
    try {
      const found = await new AvoidingRuns().find(runner.manager, [{ ...CLAIMANT, cpuCores }], 101);
      return [found, blocks];
    } finally {
      await runner.release();
    }
  }

  test('is looked through at a cost that does not depend on their number', async () => {
    for (const cores of [4, 0]) {
      const [found, blocks] = await look(cores);
      assert.equal(found.exist, true);
      assert.ok(blocks < MOST_BLOCKS, `${blocks} blocks for a worker with ${cores} cores`);
    }
  });

  test('has its first other run at the head', async () => {
    const queue = queueWith();
    const found = await database.dataSource.transaction((manager) => queue.lockHead(manager, 2));
    assert.deepEqual(
      found.map(({ id }) => id),
      [last],
    );
  });
});

describe('a run that avoids a worker and that this process puts into the queue', () => {
  test('is found before its notification arrives', async () => {
    const database = await openTestDatabase({ entities: ENTITIES });
    try {
      const { manager } = database.dataSource;
      const silent = { subscribe: () => () => undefined, isListening: () => true };
      const avoiding = new AvoidingRuns(silent);
      avoiding.onModuleInit();
      assert.deepEqual((await avoiding.find(manager, [CLAIMANT], 10)).runs, []);
      assert.equal(avoiding.mayExist, false);
      const { journal } = journalOn(database.dataSource);
      const { id } = await createOn(journal);
      const run = { ...(await new RunRepository().get(manager, id)), avoidedWorker: 'v' };
      await queueWith(undefined, undefined, avoiding).put(manager, [run]);
      const { runs } = await avoiding.find(manager, [CLAIMANT], 10);
      assert.deepEqual(
        runs.map((one) => one.id),
        [id],
      );
    } finally {
      await database.close();
    }
  });
});
