import 'reflect-metadata';
import assert from 'node:assert/strict';
import { describe, test } from 'vitest';
import type { MigrationInterface, QueryRunner } from 'typeorm';
import { MIGRATIONS } from '../../../migrations/all.js';
import { rows } from '../../../src/database/sql/sql.js';
import { createLog } from '../../../src/common/logging/logger.js';
import { prepareDatabase } from '../../../src/bootstrap/open-database.js';
import { useTestDatabase } from '../../support/app/use-test-app.js';

/** Written long before the service's migrations, and refers to a table of theirs. */
class AddNotes1600000000000 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query('create table notes (run_id uuid primary key references runs on delete cascade)');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query('drop table notes');
  }
}

describe('the migrations of an extension', () => {
  const log = createLog({ logLevel: 'error' });
  const database = useTestDatabase({ migrations: [] });

  async function prepare(migrations: readonly (new () => MigrationInterface)[]): Promise<string[]> {
    const dataSource = await database.open(2);
    Object.assign(dataSource.options, { migrations: [...MIGRATIONS, ...migrations] });
    await prepareDatabase(dataSource, log, { status: '' }, { entities: [], migrations });
    const recorded = await rows<{ name: string }>(
      dataSource,
      'select name from longshore_migrations order by id',
    );
    return recorded.map(({ name }) => name);
  }

  test("are run after the service's own, whatever their timestamps, and recorded once", async () => {
    const expected = [...MIGRATIONS.map(({ name }) => name), 'AddNotes1600000000000'];
    assert.deepEqual(await prepare([AddNotes1600000000000]), expected);
    assert.deepEqual(await prepare([AddNotes1600000000000]), expected);
    // Without the extension, its table and its record stay.
    assert.deepEqual(await prepare([]), expected);
    assert.deepEqual(await rows(await database.open(1), 'select * from notes'), []);
  });
});
