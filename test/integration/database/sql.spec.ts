import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import type { EntityManager, QueryRunner } from 'typeorm';
import { currentTime, execute, rows, unnestRows } from '../../../src/database/sql/sql.js';
import type { SqlExecutor, UnnestValue } from '../../../src/database/sql/sql.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

class CreateItems1700000000001 {
  async up(q: QueryRunner): Promise<void> {
    await q.query('create table items (id integer primary key, msg text)');
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop table items');
  }
}

const AWKWARD = [
  '',
  ' ',
  'NULL',
  'null',
  '"',
  "'",
  "''; drop table items; --",
  '\\',
  '\\\\',
  '\\"',
  '\\n',
  'a,b',
  '{}',
  '{a,b}',
  '}{',
  '(1,2)',
  'line\nbreak\r\ttab',
  '$1',
  'ümläut 日本語 🚢 \u0301',
  '[0:1]={a,b}',
];

describe('SQL helpers', () => {
  const database = useTestDatabase({ migrations: [CreateItems1700000000001], entities: [] });

  async function onEvery(check: (executor: SqlExecutor) => Promise<void>): Promise<void> {
    const { dataSource } = database;
    await check(dataSource);
    await check(dataSource.manager);
    await dataSource.transaction((manager) => check(manager));
    const runner = dataSource.createQueryRunner();
    try {
      await check(runner);
      await check(runner.manager);
    } finally {
      await runner.release();
    }
  }

  it('answer rows for every kind of statement on every kind of executor', async () => {
    await onEvery(async (executor) => {
      assert.deepEqual(
        await rows(executor, 'insert into items values (1, $1), (2, $2) returning id, msg', ['a', 'b']),
        [
          { id: 1, msg: 'a' },
          { id: 2, msg: 'b' },
        ],
      );
      assert.deepEqual(await rows(executor, 'select id from items order by id'), [{ id: 1 }, { id: 2 }]);
      assert.deepEqual(await rows(executor, "update items set msg = 'c' where id = 2 returning msg"), [
        { msg: 'c' },
      ]);
      assert.deepEqual(await rows(executor, 'update items set msg = msg where id = 3 returning msg'), []);
      assert.deepEqual(
        await rows(executor, 'with gone as (delete from items returning id) select id from gone order by id'),
        [{ id: 1 }, { id: 2 }],
      );
      assert.deepEqual(await rows(executor, 'delete from items returning id'), []);
      assert.deepEqual(await rows(executor, 'delete from items'), []);
    });
  });

  it('count the rows of every kind of statement', async () => {
    await onEvery(async (executor) => {
      assert.equal(await execute(executor, 'insert into items select n from generate_series(1, 3) as n'), 3);
      assert.equal(await execute(executor, 'insert into items values (1) on conflict do nothing'), 0);
      assert.equal(await execute(executor, 'update items set msg = $1 where id > 1', ['x']), 2);
      assert.equal(await execute(executor, 'select * from items'), 3);
      assert.equal(await execute(executor, 'set local work_mem = default'), 0);
      assert.equal(await execute(executor, 'delete from items'), 3);
    });
  });

  it('work inside the transaction of the manager they are given', async () => {
    const failed = database.dataSource.transaction(async (manager: EntityManager) => {
      await execute(manager, 'insert into items values (9)');
      assert.equal((await rows(manager, 'select from items')).length, 1);
      throw new Error('roll back');
    });
    await assert.rejects(failed, /roll back/);
    assert.equal((await rows(database.dataSource, 'select from items')).length, 0);
  });

  it('give connections back', async () => {
    const single = await database.open(1);
    for (let turn = 0; turn < 3; turn += 1) {
      await rows(single, 'select 1');
      await assert.rejects(execute(single, 'select 1 / 0'), { code: '22012' });
    }
  });

  it('carry awkward texts through unnest unchanged and in order', async () => {
    const source = unnestRows(
      { id: 'integer', msg: 'text' },
      [...AWKWARD, null].map((msg, id) => ({ id, msg })),
      2,
    );
    const answer = await rows<{ id: number; msg: string | null; first: string }>(
      database.dataSource,
      `select id, msg, $1::text as first from ${source.sql}`,
      ['first', ...source.params],
    );
    assert.deepEqual(
      answer.map(({ msg }) => msg),
      [...AWKWARD, null],
    );
    assert.equal(answer[0]?.first, 'first');
    const inserted = await execute(
      database.dataSource,
      `insert into items select id, msg from ${unnestRows({ id: 'integer', msg: 'text' }, []).sql}`,
      [[], []],
    );
    assert.equal(inserted, 0);
  });

  it('carry every type of value', async () => {
    const t = new Date('2026-02-03T04:05:06.789Z');
    const columns = {
      a: 'uuid',
      b: 'bigint',
      c: 'boolean',
      d: 'timestamptz',
      e: 'json',
      f: 'jsonb',
      g: 'bytea',
      h: 'double precision',
      i: 'smallint',
    };
    const value: Record<keyof typeof columns, UnnestValue> = {
      a: '01990000-0000-7000-8000-000000000001',
      b: 9_007_199_254_740_993n,
      c: false,
      d: t,
      e: JSON.stringify({ text: AWKWARD, nothing: null }),
      f: 'null',
      g: Buffer.from([0, 1, 255, 34, 92]),
      h: 1.5e300,
      i: -7,
    };
    const empty = { a: null, b: null, c: null, d: null, e: null, f: null, g: null, h: null, i: null };
    const source = unnestRows(columns, [value, empty]);
    const answer = await rows<Record<string, unknown>>(
      database.dataSource,
      `select *, jsonb_typeof(f) as kind from ${source.sql}`,
      source.params,
    );
    assert.deepEqual(answer, [
      {
        ...value,
        b: '9007199254740993',
        e: { text: AWKWARD, nothing: null },
        f: null,
        kind: 'null',
      },
      { ...empty, kind: null },
    ]);
  });

  it('tell a time that goes on within a transaction', async () => {
    await database.dataSource.transaction(async (manager) => {
      const first = await currentTime(manager);
      await rows(manager, 'select pg_sleep(0.01)');
      const second = await currentTime(manager);
      assert.ok(second.getTime() >= first.getTime() + 10);
      assert.ok(Math.abs(second.getTime() - Date.now()) < 60_000);
    });
  });
});
