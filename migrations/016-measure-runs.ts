import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Bytes of runs and of the outputs of attempts, so that a page of them can be bounded without reading them (null: from
 * before this migration, measured when read), and what an attempt has reported in events that change no state. Adding the
 * columns does not rewrite the tables.
 */
export class MeasureRuns1795000000016 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table runs
        add column note_count integer not null default 0,
        add column note_bytes integer not null default 0,
        add column size integer;
      alter table attempts
        add column size integer;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table runs drop column note_count, drop column note_bytes, drop column size;
      alter table attempts drop column size;
    `);
  }
}
