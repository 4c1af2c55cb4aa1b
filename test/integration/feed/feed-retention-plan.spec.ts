import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import { Registry } from 'prom-client';
import { execute } from '../../../src/database/sql/sql.js';
import { FeedMetrics } from '../../../src/feed/feed-metrics.js';
import { FeedRetention } from '../../../src/feed/feed-retention.js';
import { loadSettings } from '../../../src/config/settings.module.js';
import { planNodes } from '../../support/postgres/plan-nodes.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

interface Plan {
  readonly 'Node Type': string;
  readonly 'Index Name'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Rows Removed by Filter'?: number;
  readonly Plans?: readonly Plan[];
}

describe('retention beside 20,000 feeds and 100,000 entries that it keeps', () => {
  const database = useTestDatabase();

  beforeAll(async () => {
    const { dataSource } = database;
    await execute(
      dataSource,
      `insert into feed_entries (topic, position, run_id, event_index, recorded_at)
       select 't' || n % 20000, 1 + n / 20000, gen_random_uuid(), 0,
              now() - case when n < 10 then interval '8 days' else interval '1 day' end
         from generate_series(0, 99999) n`,
    );
    await execute(
      dataSource,
      `insert into feed_topics (topic, last_position, oldest_at)
       select topic, max(position), min(recorded_at) from feed_entries group by topic`,
    );
    await execute(dataSource, 'analyze feed_topics, feed_entries');
  });

  test('reads the feeds and the entries that are due, by their indexes', async () => {
    const source = await database.open();
    const plans: Plan[] = [];
    const createQueryRunner = source.createQueryRunner.bind(source);
    source.createQueryRunner = (...args) => {
      const runner = createQueryRunner(...args);
      const send = runner.query.bind(runner);
      runner.query = async (sql: string, params?: unknown[], ...more: unknown[]) => {
        if (sql.includes('feed_topics')) {
          await send('savepoint before_plan');
          const [row] = await send(`explain (analyze, format json) ${sql}`, params);
          plans.push(row['QUERY PLAN'][0].Plan);
          await send('rollback to before_plan');
        }
        return Reflect.apply(send, runner, [sql, params, ...more]);
      };
      return runner;
    };
    const retention = new FeedRetention(source, loadSettings([], {}), new FeedMetrics(new Registry()));
    assert.deepEqual(await retention.runOnce(new Date()), { entries: 10 });
    const nodes = plans.flatMap(planNodes);
    const indexes = new Set(nodes.flatMap((node) => node['Index Name'] ?? []));
    assert.deepEqual([...indexes].toSorted(), [
      'feed_entries_pkey',
      'feed_topics_by_oldest',
      'feed_topics_pkey',
    ]);
    for (const node of nodes) {
      assert.notEqual(node['Node Type'], 'Seq Scan');
      const read = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops'];
      assert.ok(read <= 50, JSON.stringify(node));
    }
  });
});
