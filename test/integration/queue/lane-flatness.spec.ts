import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { EntityManager } from 'typeorm';
import { execute } from '../../../src/database/sql/sql.js';
import { JOURNAL_SESSION } from '../../../src/database/failover/reserved-connection.js';
import { ConcurrencyKeys } from '../../../src/runs/queue/concurrency-keys.js';
import { laneOf } from '../../../src/runs/queue/lane.js';
import { Lanes } from '../../../src/runs/queue/lanes.js';
import { requirementIdOf } from '../../../src/runs/requirements.js';
import type { Claimant } from '../../../src/runs/scheduling-strategy.js';
import { createOn, journalOn } from '../../support/runs/journal.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const SELECTORS = 1_000;
const RUNS_PER_SELECTOR = 50;
const KEYS = 10_000;
const RUNS_PER_KEY = 10;
/** Runs of the claimant's own selector, and of one key: many times the average. */
const RUNS_BEHIND = 20_000;

/** Blocks that a claim may touch: a few steps in indexes, and the rows of one page. */
const MOST_BLOCKS = 300;

const CLAIMANT: Claimant = {
  id: 'w',
  cpuCores: 4,
  ramMb: 4096,
  gpus: [],
  capabilities: [],
  held: [],
  tags: ['shared', 'team-7', 'other'],
};

/** Notices of which none arrives. */
const SILENT = { subscribe: () => () => undefined, isListening: true };

describe('a queue with many selectors, and many keys at their limits', () => {
  const database = useTestDatabase();
  let mine: string;

  beforeAll(async () => {
    const { journal } = journalOn(database.dataSource);
    const selector = ['shared', 'team-7'];
    const requirementId = requirementIdOf({ tags: selector, capabilities: [], gpuTags: [], gpus: null });
    const run = await createOn(journal, {
      selector,
      requirementId,
      concurrencyKey: 'mine',
      concurrencyLimit: 1,
    });
    mine = run.id;
    const lane = laneOf(run);
    const seeds = [
      `insert into lanes (id, required)
       select md5(n::text)::uuid, array['tag:shared', 'tag:other-' || n]
         from generate_series(1, ${SELECTORS}) as n`,
      `insert into queue (
                run_id, priority, created_at, cpu_millis, ram_mb, vram_mb, lane
              )
       select gen_random_uuid(), 5, now(), 0, 0, 0, md5((1 + n % ${SELECTORS})::text)::uuid
         from generate_series(1, ${SELECTORS * RUNS_PER_SELECTOR}) as n`,
      `insert into concurrency_keys (key, executing) select 'key-' || n, 1 from generate_series(1, ${KEYS}) as n`,
      `insert into queue (
                run_id, priority, created_at, cpu_millis, ram_mb, vram_mb, lane, concurrency_key,
                concurrency_limit, alike, is_admitted
              )
       select gen_random_uuid(), 5, now(), 0, 0, 0, '${lane}', 'key-' || (1 + n % ${KEYS}), 1, 0, false
         from generate_series(1, ${KEYS * RUNS_PER_KEY}) as n`,
      `insert into queue (
                run_id, priority, created_at, cpu_millis, ram_mb, vram_mb, lane
              )
       select gen_random_uuid(), -1, now(), 0, 0, 0, '${lane}'
         from generate_series(1, ${RUNS_BEHIND}) as n`,
      `insert into queue (
                run_id, priority, created_at, cpu_millis, ram_mb, vram_mb, lane, concurrency_key,
                concurrency_limit, alike, is_admitted
              )
       select gen_random_uuid(), 5, now(), 0, 0, 0, '${lane}', 'key-3', 1, 0, false
         from generate_series(1, ${RUNS_BEHIND}) as n`,
    ];
    for (const seed of seeds) await execute(database.dataSource, seed);
  });

  /** Runs the work with the settings of the journal, and answers the blocks that its statements touch. */
  async function blocksOf(work: (manager: EntityManager) => Promise<void>): Promise<number> {
    const runner = database.dataSource.createQueryRunner();
    const send = runner.query.bind(runner);
    let blocks = 0;
    await send('begin');
    for (const setting of Object.entries(JOURNAL_SESSION))
      await send('select set_config($1, $2, true)', setting);
    runner.query = async (sql: string, params?: unknown[]) => {
      const [row] = await send(`explain (analyze, buffers, format json) ${sql}`, params);
      const plan = row['QUERY PLAN'][0].Plan;
      blocks += plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
      return send(sql, params, true);
    };
    try {
      await work(runner.manager);
      await send('commit');
      return blocks;
    } finally {
      await runner.release();
    }
  }

  for (const when of ['before', 'after']) {
    test(`costs a claim no more than its own runs, ${when} statistics were collected`, async () => {
      if (when === 'after') await execute(database.dataSource, 'analyze');
      const lanes = new Lanes(SILENT);
      lanes.onModuleInit();
      await lanes.list(database.dataSource.manager, [], { limit: 1 });
      const blocks = await blocksOf(async (manager) => {
        const { runs } = await lanes.list(manager, [CLAIMANT], { limit: 1 });
        assert.deepEqual(
          runs.slice(0, 1).map(({ id }) => id),
          [mine],
        );
      });
      assert.ok(blocks < MOST_BLOCKS, `${blocks} blocks`);
    });

    test(`costs the end of a run no more than the runs that its key admits, ${when} statistics were collected`, async () => {
      const keys = new ConcurrencyKeys();
      await execute(database.dataSource, `update concurrency_keys set executing = 0 where key = 'key-3'`);
      const blocks = await blocksOf(async (manager) => {
        await keys.admit(manager, ['key-3']);
      });
      assert.ok(blocks < MOST_BLOCKS, `${blocks} blocks`);
    });
  }
});
