import assert from 'node:assert/strict';
import { afterAll, describe, it } from 'vitest';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../../src/database/data-source.js';
import { migrate, type BlockedMigration } from '../../../src/database/migrate.js';
import { dumpSchema } from '../../../migrations/schema-dump.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { MIGRATIONS } from '../../../migrations/all.js';
import { openTestDatabase } from '../../support/test-database.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

class CreateThings1700000000001 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query('create table things (n integer); insert into things select generate_series(1, 1000);');
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop table things');
  }
}

class IndexThings1700000000002 implements MigrationInterface {
  transaction = false;

  async up(q: QueryRunner): Promise<void> {
    await q.query('create index concurrently things_by_n on things (n)');
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop index things_by_n');
  }
}

class BreakHalfway1700000000003 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query('create table half (n integer)');
    await q.query('select 1 / 0');
  }

  async down(): Promise<void> {
    // Nothing was left behind.
  }
}

class SleepLong1700000000004 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query('select pg_sleep(1)');
  }

  async down(): Promise<void> {
    // Nothing to undo.
  }
}

class WidenThings1700000000005 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query('create table beside_things (n integer)');
    await q.query('alter table things add column width integer');
  }

  async down(): Promise<void> {
    // Nothing to undo.
  }
}

type Migrations = readonly (new () => MigrationInterface)[];

describe('migrate', () => {
  const database = useTestDatabase({ migrations: [], entities: [] });
  const opened: DataSource[] = [];

  afterAll(async () => {
    await Promise.all(opened.filter((source) => source.isInitialized).map((source) => source.destroy()));
  });

  async function open(migrations: Migrations, extra: object = {}, url = database.url): Promise<DataSource> {
    const options = dataSourceOptions({
      url,
      poolSize: 1,
      applicationName: 'spec of migrate',
      entities: [],
      migrations,
    });
    const source = await new DataSource({ ...options, extra: { ...options.extra, ...extra } }).initialize();
    opened.push(source);
    return source;
  }

  it('runs each migration once when many start at the same time, concurrent indexes included', async () => {
    const migrations = [CreateThings1700000000001, IndexThings1700000000002];
    const sources = await Promise.all([1, 2, 3, 4].map(() => open(migrations)));
    let waited = 0;
    const ran = await Promise.all(
      sources.map((source) => migrate(source, { timeoutMs: 120_000, onWait: () => (waited += 1) })),
    );
    assert.deepEqual(ran.flat().toSorted(), ['CreateThings1700000000001', 'IndexThings1700000000002']);
    assert.equal(ran.filter((names) => names.length > 0).length, 1);
    assert.ok(waited > 0);
    const [index] = await rows<{ valid: boolean }>(
      database.dataSource,
      "select indisvalid as valid from pg_index where indexrelid = 'things_by_n'::regclass",
    );
    assert.deepEqual(index, { valid: true });
    assert.deepEqual(await migrate(sources[0] ?? assert.fail()), []);
  });

  it('keeps what came before a migration that fails, and nothing of that one', async () => {
    const source = await open([
      CreateThings1700000000001,
      IndexThings1700000000002,
      BreakHalfway1700000000003,
    ]);
    await assert.rejects(
      migrate(source),
      /^MigrationFailed: migration BreakHalfway1700000000003 failed, the schema is as it was before it: division by zero$/,
    );
    const [state] = await rows(
      database.dataSource,
      "select to_regclass('half') as half, to_regclass('things')::text as things",
    );
    assert.deepEqual(state, { half: null, things: 'things' });
    // The lock is free again.
    assert.deepEqual(await migrate(await open([CreateThings1700000000001])), []);
  });

  it('that waits for a lock lets everybody else go on, says who has it, and comes to its end afterwards', async () => {
    const things = [CreateThings1700000000001, IndexThings1700000000002];
    await migrate(await open(things));
    const holder = await database.open(1);
    const other = await database.open(1);
    const blocked: BlockedMigration[] = [];
    const began: string[] = [];
    let migrating: Promise<string[]> | undefined;
    await holder.transaction(async (manager) => {
      await execute(manager, 'select count(*) from things');
      migrating = migrate(await open([...things, WidenThings1700000000005]), {
        onBegin: (pending) => void began.push(...pending),
        onBlocked: (one) => void blocked.push(one),
      });
      while (blocked.length < 2) {
        // It has the readers wait for no longer than it waits itself: this is answered while the lock is held.
        await execute(other, 'select count(*) from things');
      }
      const [half] = await rows(other, "select to_regclass('beside_things') as made");
      assert.deepEqual(half, { made: null });
    });
    assert.deepEqual(await migrating, ['WidenThings1700000000005']);
    assert.deepEqual(began, ['WidenThings1700000000005']);
    assert.equal(blocked[0]?.migration, 'WidenThings1700000000005');
    assert.equal(blocked[0]?.oldest?.application, 'longshore test');
  });

  it('that cannot have its lock fails after its time, and leaves the schema as it was', async () => {
    const holder = await database.open(1);
    await holder.transaction(async (manager) => {
      await execute(manager, 'select count(*) from things');
      class NarrowThings1700000000006 extends WidenThings1700000000005 {}
      const source = await open([NarrowThings1700000000006]);
      await execute(source, 'drop table if exists beside_things');
      await assert.rejects(
        migrate(source, { timeoutMs: 1_200 }),
        /NarrowThings1700000000006 failed.*lock timeout/,
      );
      const [half] = await rows(source, "select to_regclass('beside_things') as made");
      assert.deepEqual(half, { made: null });
    });
  });

  it('lets a migration take longer than any statement of the service may', async () => {
    const hurried = await open([SleepLong1700000000004], {
      session: { statement_timeout: 200 },
      query_timeout: 300,
    });
    await assert.rejects(execute(hurried, 'select pg_sleep(1)'));
    assert.deepEqual(await migrate(hurried), ['SleepLong1700000000004']);
  });

  it('gives up when another process holds the lock for too long', async () => {
    const source = await open([]);
    await database.dataSource.transaction(async (manager) => {
      await execute(manager, 'select pg_advisory_xact_lock(7161023518446744)');
      await assert.rejects(
        migrate(source, { timeoutMs: 300 }),
        /another process has been migrating .* 0.3 s/,
      );
    });
    assert.deepEqual(await migrate(source), []);
  });

  it('undoes each of the service’s own migrations exactly, and runs it again', async () => {
    const own = await openTestDatabase({ migrations: [], entities: [] });
    const sources: DataSource[] = [];
    const schemas: string[] = [await describeSchema(own.dataSource)];
    try {
      for (const [index, { name }] of MIGRATIONS.entries()) {
        const source = await open(MIGRATIONS.slice(0, index + 1), {}, own.url);
        assert.deepEqual(await migrate(source), [name]);
        sources.push(source);
        schemas.push(await describeSchema(source));
      }
      for (const [index, source] of [...sources.entries()].toReversed()) {
        await source.undoLastMigration({ transaction: 'each' });
        assert.equal(await describeSchema(source), schemas[index], `down of ${MIGRATIONS[index]?.name}`);
      }
      const last = sources.at(-1) ?? assert.fail();
      assert.equal((await migrate(last)).length, MIGRATIONS.length);
      assert.equal(await describeSchema(last), schemas.at(-1));
    } finally {
      await Promise.all(sources.map((source) => source.destroy()));
      await own.close();
    }
  });
});

/** The tables and the functions of the database as text. */
async function describeSchema(source: DataSource): Promise<string> {
  const functions = await rows<{ text: string }>(
    source,
    `select pg_get_functiondef(oid) as text
       from pg_proc
      where pronamespace = 'public'::regnamespace
      order by proname`,
  );
  return [await dumpSchema(source), ...functions.map(({ text }) => text)].join('\n');
}
