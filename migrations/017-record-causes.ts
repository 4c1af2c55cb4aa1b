import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Why an attempt failed, its exit code, and the worker that a run avoids after a fault of the infrastructure. Adding the
 * columns does not rewrite the tables.
 */
export class RecordCauses1795000000017 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table runs
        add column cause text,
        add column exit_code smallint,
        add column avoided_worker text;
      alter table attempts
        add column cause text,
        add column exit_code smallint;
      alter table run_queue
        add column avoided_worker text;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table run_queue drop column avoided_worker;
      alter table attempts drop column cause, drop column exit_code;
      alter table runs drop column cause, drop column exit_code, drop column avoided_worker;
    `);
  }
}
