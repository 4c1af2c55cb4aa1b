import 'reflect-metadata';
import assert from 'node:assert/strict';
import { beforeAll, describe, test } from 'vitest';
import type { DataSource } from 'typeorm';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { countConditions, listGroups, type GroupFilter } from '../../../src/groups/group-list.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

const GROUPS = 20_000;
const LIMIT = 51;

/** Blocks that a page may touch: its groups one by one, and what is looked up to choose. */
const MOST_BLOCKS = 12 * LIMIT;

const FILTERS: readonly (readonly [title: string, filter: GroupFilter])[] = [
  ['no filter', { terms: [] }],
  ['a frequent state', { state: 'completed', terms: [] }],
  ['a state that only the oldest groups have', { state: 'failed', terms: [] }],
  ['a state that no group has', { state: 'cancelled', terms: [] }],
  ['a frequent name', { name: 'often', terms: [] }],
  ['a name that only the oldest group has', { name: 'once', terms: [] }],
  ['a name that no group has', { name: 'never', terms: [] }],
  ['a schedule that only the oldest group has', { schedule: 'once', terms: [] }],
  ['a frequent label', { terms: [['label:team=often']] }],
  ['a label that only the oldest group has', { terms: [['label:stage=once']] }],
  ['a label that no group has', { terms: [['label:never']] }],
  ['two values of a label', { terms: [['label:team=often', 'label:team=never']] }],
  ['a frequent label and a rare one', { terms: [['label:team=often'], ['label:stage=once']] }],
  ['a frequent label and a rare name', { name: 'once', terms: [['label:team=often']] }],
  ['a frequent label and a rare state', { state: 'failed', terms: [['label:team=often']] }],
  ['a rare label and a frequent name', { name: 'often', terms: [['label:stage=once']] }],
];

interface Plan {
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
}

describe(`a page of a list of ${GROUPS} groups`, () => {
  const database = useTestDatabase();
  let dataSource: DataSource;

  beforeAll(async () => {
    dataSource = database.dataSource;
    await execute(
      dataSource,
      `insert into groups (id, name, labels, on_failure, size, created_at, updated_at, state, ended_at, schedule_id, schedule_time, created, completed)
       select gen_random_uuid(), case when n = 0 then 'once' else 'often' end,
              case when n = 0 then '{"team":"often","stage":"once"}' else '{"team":"often"}' end::json,
              'cancel_dependents', 1, t.at, t.at, case when n = 0 then 'failed' else 'completed' end, t.at,
              case when n = 0 then 'once' end, case when n = 0 then 'x' end, 1, 1
         from generate_series(0, ${GROUPS - 1}) as n
        cross join lateral (select timestamptz '2026-01-01' + n * interval '1 second' as at) t`,
      [],
    );
    await execute(
      dataSource,
      `insert into group_terms (group_id, term, created_at)
       select g.id, t.term, g.created_at
         from groups g
        cross join lateral (select unnest(array['label:' || key, 'label:' || key || '=' || value]) as term from json_each_text(g.labels)) t`,
      [],
    );
    await execute(dataSource, 'analyze groups, group_terms', []);
  });

  const blocksOf = async (sql: string, params: readonly unknown[]): Promise<number> => {
    const [explained] = await rows<{ 'QUERY PLAN': readonly { readonly Plan: Plan }[] }>(
      dataSource,
      `explain (analyze, buffers, format json) ${sql}`,
      [...params],
    );
    const [{ Plan: plan } = assert.fail()] = explained?.['QUERY PLAN'] ?? [];
    return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
  };

  for (const [title, filter] of FILTERS)
    test(`by ${title} reads no more than its groups`, async () => {
      const counting = countConditions(filter);
      const [rarest] = counting
        ? await rows<{ key: number }>(dataSource, counting.sql, [...counting.params])
        : [];
      const { sql, params } = listGroups(LIMIT, null, filter, rarest?.key);
      const blocks = await blocksOf(sql, params);
      assert.ok(blocks <= MOST_BLOCKS, `${blocks} blocks`);
      const place = {
        id: 'ffffffff-ffff-4fff-8fff-ffffffffffff',
        createdAt: new Date('2026-01-01T02:00:00Z'),
      };
      const next = listGroups(LIMIT, place, filter, rarest?.key);
      assert.ok((await blocksOf(next.sql, next.params)) <= MOST_BLOCKS);
      const found = await rows<{ createdAt: Date }>(dataSource, next.sql, [...next.params]);
      assert.ok(found.every(({ createdAt }) => createdAt <= place.createdAt));
    });
});
