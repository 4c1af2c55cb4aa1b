import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Adds the budgets of teams. The digits at the end of the name are the time of its writing, in milliseconds. */
export class AddTeamBudgets1795100000001 implements MigrationInterface {
  async up(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query(
      `create table team_budgets (
         team text primary key,
         runs_per_day integer not null check (runs_per_day >= 0),
         used integer not null default 0,
         day date not null
       )`,
    );
  }

  async down(queryRunner: QueryRunner): Promise<void> {
    await queryRunner.query('drop table team_budgets');
  }
}
