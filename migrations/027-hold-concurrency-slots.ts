import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Containers that may still be executed after their run was taken from its worker; their concurrency keys count them. */
export class HoldConcurrencySlots1795000000027 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create table concurrency_slots (
        id bigint generated always as identity,
        run_id uuid not null,
        key text not null,
        worker_id text not null,
        assigned_at timestamp(3) with time zone not null,
        ends_at timestamp(3) with time zone not null,
        constraint concurrency_slots_pkey primary key (id)
      );
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop table concurrency_slots');
  }
}
