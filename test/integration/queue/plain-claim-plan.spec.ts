import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { execute } from '../../../src/database/sql/sql.js';
import { LowWaterMarks } from '../../../src/runs/queue/low-water-marks.js';
import { queueWith } from '../../support/runs/journal.js';
import { planNodes } from '../../support/postgres/plan-nodes.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** Plain runs, and as many of another lane, which come first in the order of the queue. */
const RUNS = 10_000;

/** Notices of which none arrives. */
const SILENT = { subscribe: () => () => undefined, isListening: true };

interface Plan {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Relation Name'?: string;
  readonly Plans?: readonly Plan[];
}

describe('a claim of plain runs, beside as many of another lane', () => {
  const database = useTestDatabase();

  beforeAll(async () => {
    await execute(
      database.dataSource,
      `with made as (
         insert into runs (
           id, state, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
           max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, queued_at, created_at, updated_at, size
         )
         select gen_random_uuid(), 'PENDING', n % 3, 0, 1, gen_random_uuid(), 0, 0, 0, 0,
                1, 'i', '{}', '{}', 0, 0, 0, now(), now() + n * interval '1 ms', now(), 4
           from generate_series(1, ${RUNS}) as n
      returning id, priority, created_at
       )
       insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
       select id, priority, created_at, 0, 0, 0 from made`,
    );
    await execute(
      database.dataSource,
      `insert into queue (run_id, lane, priority, created_at, ram_mb, vram_mb, cpu_millis)
       select gen_random_uuid(), md5('lane')::uuid, 9, now(), 0, 0, 0 from generate_series(1, ${RUNS})`,
    );
  });

  /** The nodes that a look at the head of the queue has, without those that read no table. */
  async function nodesOfClaim(marks: LowWaterMarks): Promise<readonly Plan[]> {
    const queue = queueWith(marks);
    const runner = database.dataSource.createQueryRunner();
    const send = runner.query.bind(runner);
    const nodes: Plan[] = [];
    await runner.startTransaction();
    runner.query = async (sql: string, params?: unknown[]) => {
      const [row] = await send(`explain (format json) ${sql}`, params);
      nodes.push(...planNodes(row['QUERY PLAN'][0].Plan));
      return send(sql, params, true);
    };
    try {
      assert.equal((await queue.readFirst(runner.manager, 10, true)).length, 10);
      assert.equal(await queue.isPlainEmpty(runner.manager), false);
      return nodes;
    } finally {
      runner.query = send;
      await runner.rollbackTransaction();
      await runner.release();
    }
  }

  for (const when of ['before', 'after']) {
    test(`reads the head of one index and sorts nothing, ${when} statistics were collected`, async () => {
      if (when === 'after') await execute(database.dataSource, 'analyze');
      const marks = new LowWaterMarks(SILENT);
      marks.onModuleInit();
      // The first claim scans the whole lane, the second one from the marks.
      for (const _ of [1, 2]) {
        const nodes = await nodesOfClaim(marks);
        const readers = nodes.filter((node) => node['Relation Name'] !== undefined);
        const onQueue = readers.filter((node) => node['Relation Name'] === 'queue');
        assert.ok(onQueue.length > 0);
        for (const node of onQueue) {
          assert.match(node['Node Type'], /^Index (Only )?Scan$/);
          assert.equal(node['Index Name'], 'queue_order');
        }
        const onRuns = readers.filter((node) => node['Relation Name'] === 'runs');
        assert.deepEqual([...new Set(onRuns.map((node) => node['Index Name']))], ['runs_pkey']);
        assert.deepEqual(
          nodes.filter((node) => /Sort|Bitmap|Hash|Seq Scan/.test(node['Node Type'])),
          [],
        );
      }
    });
  }
});
