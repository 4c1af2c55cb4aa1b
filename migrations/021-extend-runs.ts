import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What a run may also say: container options, selector, concurrency, delayed start and the failures that are retried.
 * Adding the columns does not rewrite the tables.
 */
export class ExtendRuns1795000000021 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table runs
        add column container json,
        add column selector json,
        add column requirement_id uuid,
        add column concurrency_key text,
        add column concurrency_limit integer,
        add column start_at timestamp(3) with time zone,
        add column retry_on text;
      alter table definitions
        add column container json,
        add column selector json,
        add column concurrency_key text,
        add column concurrency_limit integer,
        add column retry_on text;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table definitions
        drop column container, drop column selector, drop column concurrency_key,
        drop column concurrency_limit, drop column retry_on;
      alter table runs
        drop column container, drop column selector, drop column requirement_id, drop column concurrency_key,
        drop column concurrency_limit, drop column start_at, drop column retry_on;
    `);
  }
}
