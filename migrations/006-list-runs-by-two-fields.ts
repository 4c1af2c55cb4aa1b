import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Indexes of the lists of runs by two fields at once: without them, values that are frequent but never meet have a list
 * read through all runs of the rarer one. A run has an entry where it has both fields, so a run with neither topic nor
 * definition costs nothing more.
 */
export class ListRunsByTwoFields1795000000006 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create index runs_by_topic_and_image on runs (topic, image, state, created_at desc, id desc)
        where topic is not null;
      create index runs_by_definition_and_image on runs (definition_id, image, state, created_at desc, id desc)
        where definition_id is not null;
      create index runs_by_topic_and_definition on runs (topic, definition_id, state, created_at desc, id desc)
        where topic is not null and definition_id is not null;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(
      'drop index runs_by_topic_and_image, runs_by_definition_and_image, runs_by_topic_and_definition',
    );
  }
}
