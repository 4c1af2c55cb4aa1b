import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Adds the counts of outcomes, and the cursor behind the events that they include. */
export class AddRunOutcomes1795100000002 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query(
      `create table run_outcomes (
         image text not null,
         state text not null,
         runs integer not null,
         primary key (image, state)
       )`,
    );
    await queryRunner.query('create table run_outcomes_cursor (id integer primary key, cursor text)');
    await queryRunner.query('insert into run_outcomes_cursor values (1, null)');
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query('drop table run_outcomes, run_outcomes_cursor');
  }
}
