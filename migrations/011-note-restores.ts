import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What is needed to notice that the database was restored from a backup, and to tell cursors of a feed from before that
 * from those of after it. A restored feed goes on as another branch: it shares what it held then, and nothing behind that.
 *
 * `database_origin` says by what the database can be told from a restored one. `feed_branches` has a row per restore, the
 * branch before the first has none; `feed_branch_heads` the position up to which a branch shares a topic's feed with the
 * branch before it.
 */
export class NoteRestores1795000000011 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create table database_origin (
        only_row boolean primary key default true check (only_row),
        marks jsonb not null
      );

      create table feed_branches (
        number integer primary key check (number >= 1),
        token text not null unique,
        began_at timestamptz(3) not null
      );

      create table feed_branch_heads (
        number integer not null references feed_branches (number) on delete cascade,
        topic text not null,
        last_position bigint not null check (last_position >= 0),
        primary key (topic, number)
      );
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop table feed_branch_heads, feed_branches, database_origin');
  }
}
