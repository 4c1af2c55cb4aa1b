import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Indexes of the lists of runs: each has the state before the time, so that a filter together with a state is a stretch of
 * one index as well. A list of all states merges one stretch a state, which takes the place of the index by time alone.
 *
 * The predicate of `runs_by_state` holds for every run. It keeps the planner from using the index for lists that do not
 * ask for it (see run-list.repository.ts).
 */
export class ListRunsByState1795000000005 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      drop index runs_by_created, runs_by_state, runs_by_image, runs_by_definition, runs_by_topic;
      create index runs_by_state on runs (state, created_at desc, id desc)
        where max_attempts > 0;
      create index runs_by_image on runs (image, state, created_at desc, id desc);
      create index runs_by_definition on runs (definition_id, state, created_at desc, id desc)
        where definition_id is not null;
      create index runs_by_topic on runs (topic, state, created_at desc, id desc)
        where topic is not null;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      drop index runs_by_state, runs_by_image, runs_by_definition, runs_by_topic;
      create index runs_by_created on runs (created_at desc, id desc);
      create index runs_by_state on runs (state, created_at desc, id desc);
      create index runs_by_image on runs (image, created_at desc, id desc);
      create index runs_by_definition on runs (definition_id, created_at desc, id desc)
        where definition_id is not null;
      create index runs_by_topic on runs (topic, created_at desc, id desc)
        where topic is not null;
    `);
  }
}
