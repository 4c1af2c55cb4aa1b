import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Secrets of runs, encrypted by the service. */
export class AddSecrets1795000000023 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create table secrets (
        name text not null,
        kind text not null,
        ciphertext bytea not null,
        created_at timestamp(3) with time zone not null,
        updated_at timestamp(3) with time zone not null,
        constraint secrets_pkey primary key (name),
        constraint secrets_kind_check check (kind in ('opaque', 'registry'))
      );
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop table secrets');
  }
}
