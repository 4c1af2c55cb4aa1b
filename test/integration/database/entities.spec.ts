import assert from 'node:assert/strict';
import { describe, it } from 'vitest';
import { DataSource } from 'typeorm';
import { dataSourceOptions } from '../../../src/database/data-source.js';
import { ENTITIES } from '../../../src/database/entities/all.js';
import { dumpSchema } from '../../../migrations/schema-dump.js';
import { execute, rows } from '../../../src/database/sql/sql.js';
import { openTestDatabase } from '../../support/test-database.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** Indexes of lists, and those with a descending column or an expression: entities only name them. */
const NAMED_ONLY = [
  'api_keys_by_created',
  'audit_entries_secret_reads',
  'definitions_latest',
  'queue_by_key',
  'queue_order',
  'queue_passed_over',
  'run_terms_in_lists',
  'runs_by_cause',
  'runs_by_concurrency_key',
  'runs_by_creator',
  'runs_by_definition',
  'runs_by_definition_and_image',
  'runs_by_exit_code',
  'runs_by_image',
  'runs_by_name',
  'runs_by_outcome',
  'runs_by_rerun',
  'runs_by_topic',
  'runs_by_topic_and_definition',
  'runs_by_topic_and_image_hash',
  'runs_by_worker',
];

describe('the entities', () => {
  const migrated = useTestDatabase();

  it('describe every table, and no other', async () => {
    const tables = await rows<{ name: string }>(
      migrated.dataSource,
      `select tablename as name
         from pg_tables
        where schemaname = 'public' and tablename <> 'longshore_migrations'
        order by tablename`,
    );
    assert.deepEqual(
      migrated.dataSource.entityMetadatas.map(({ tableName }) => tableName).toSorted(),
      tables.map(({ name }) => name),
    );
  });

  it('need no change of the migrated schema', async () => {
    const { upQueries } = await migrated.dataSource.driver.createSchemaBuilder().log();
    assert.deepEqual(
      upQueries.map(({ query }) => query),
      [],
    );
  });

  it('alone make tables with the same columns and constraints as the migrations', async () => {
    const empty = await openTestDatabase({ migrations: [], entities: [] });
    const source = new DataSource(
      dataSourceOptions({
        url: empty.url,
        poolSize: 2,
        applicationName: 'spec of the entities',
        entities: ENTITIES,
        migrations: [],
      }),
    );
    try {
      await source.initialize();
      // Entities do not describe functions; the default of a column names this one.
      await execute(source, 'create function next_commit_order() returns bigint return 0::bigint');
      await source.synchronize();
      assert.deepEqual(
        comparable(await dumpSchema(source)),
        comparable(await dumpSchema(migrated.dataSource)),
      );
    } finally {
      await source.destroy();
      await empty.close();
    }
  });

  it('name each index that they do not describe, and each of them exists', async () => {
    const named = migrated.dataSource.entityMetadatas.flatMap(({ indices }) =>
      indices.filter(({ synchronize }) => !synchronize).map(({ name }) => name),
    );
    assert.deepEqual(named.toSorted(), NAMED_ONLY);
    const present = await rows<{ name: string }>(
      migrated.dataSource,
      `select indexname as name
         from pg_indexes
        where schemaname = 'public' and indexname = any($1::text[])
        order by indexname`,
      [NAMED_ONLY],
    );
    assert.deepEqual(
      present.map(({ name }) => name),
      NAMED_ONLY,
    );
  });
});

/**
 * The lines of each table, without what entities do not describe: storage options, `unlogged`, triggers, the order of
 * columns and the indexes that are only named.
 */
function comparable(dump: string): readonly string[][] {
  return dump.split('\n\n').map((table) => {
    const [title = '', ...lines] = table.trimEnd().split('\n');
    const kept = lines.filter(
      (line) =>
        !/^CREATE (?:CONSTRAINT )?TRIGGER/.test(line) &&
        !NAMED_ONLY.some((name) => line.includes(` ${name} `)),
    );
    // A bigint's default is a string in the metadata.
    const plain = kept.map((line) => line.replace(/default '(\d+)'::bigint/, 'default $1'));
    return [title.replace(/^unlogged | with .*$/g, ''), ...plain.toSorted()];
  });
}
