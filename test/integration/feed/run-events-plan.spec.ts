import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeAll, describe, it } from 'vitest';
import type { DataSource } from 'typeorm';
import { execute } from '../../../src/database/sql/sql.js';
import { listCommittedEvents } from '../../../src/runs/events/committed-event.js';
import { planNodes } from '../../support/postgres/plan-nodes.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

interface Plan {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly Plan[];
}

describe('a page of 200,000 events of 20,000 runs', () => {
  const database = useTestDatabase();

  beforeAll(async () => {
    await fill(database.dataSource);
  });

  for (const [where, commitOrder] of [
    ['in a large transaction', '3'],
    ['among groups', '17000'],
  ] as const) {
    it(`${where} reads its own events only`, async () => {
      const runner = database.dataSource.createQueryRunner();
      let plan: Plan | undefined;
      const send = runner.query.bind(runner);
      runner.query = async (sql: string, params?: unknown[]) => {
        // The transactions of this cluster have smaller ids than the events say.
        const text = sql.replace('commit_order_bound()', '(commit_order_bound() + 1000000)');
        const [row] = await send(`explain (analyze, buffers, format json) ${text}`, params);
        plan = row['QUERY PLAN'][0].Plan;
        return { records: [], affected: 0, raw: [] };
      };
      const place = { commitOrder, runId: '80000000-0000-0000-0000-000000000000', index: 0 };
      await listCommittedEvents(runner.manager, place, { events: 100, bytes: 1_000_000 });
      await runner.release();
      assert.ok(plan);
      const nodes = planNodes(plan);
      assert.ok(nodes.some((node) => node['Index Name'] === 'events_by_commit'));
      for (const node of nodes) {
        assert.notEqual(node['Node Type'], 'Seq Scan');
        assert.ok(node['Actual Rows'] <= 101, JSON.stringify(node));
        assert.equal(node['Rows Removed by Filter'] ?? 0, 0);
      }
      // An event, its run and its attempt may each be in a block of their own, below three levels of an index.
      const blocks = plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
      assert.ok(blocks < 101 * 9, `${blocks} blocks`);
    });
  }
});

/** A transaction of 150,000 events, then groups of 10. */
async function fill(dataSource: DataSource): Promise<void> {
  await execute(
    dataSource,
    `insert into runs (
       id, state, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
       max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, queued_at, created_at, updated_at, size
     )
     select gen_random_uuid(), 'PENDING', 0, 0, 2, gen_random_uuid(), 5, 10, 0, 0,
            2, 'image', '{}', '{}', 0, 0, 0, now(), now(), now(), 4
       from generate_series(1, 20000)`,
  );
  await execute(
    dataSource,
    `insert into attempts (
       run_id, attempt, id, state, progress, first_event, end_event, queued_at, finished_at, size
     )
     select id, 1, gen_random_uuid(), 'FAILED', 0, 0, 5, now(), now(), 0
       from runs`,
  );
  await execute(
    dataSource,
    `insert into events (run_id, index, attempt, type, state, t, msg, payload, size, commit_order)
     select id, index, 1 + index / 5, 'NOTE', 'PENDING', now(), '1', '{}', 3,
            case when n <= 150000 then 3 else 4 + n / 10 end
       from (select id, index, row_number() over (order by random()) as n from runs, generate_series(0, 9) index) e`,
  );
  await execute(dataSource, 'analyze runs');
  await execute(dataSource, 'analyze attempts');
  await execute(dataSource, 'analyze events');
}
