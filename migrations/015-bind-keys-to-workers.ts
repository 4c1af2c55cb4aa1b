import type { MigrationInterface, QueryRunner } from 'typeorm';

/** The workers to which an API key is bound, and the API key that sent an event. */
export class BindKeysToWorkers1795000000015 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table api_keys
        add column worker_ids text[],
        add constraint api_keys_worker_ids_check
          check (worker_ids is null or (cardinality(worker_ids) > 0 and scopes = array['worker']));
      alter table events add column sender uuid;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    // The previous version would not know that a key is bound.
    await q.query(`
      update api_keys
         set revoked_at = coalesce(revoked_at, date_trunc('milliseconds', now()))
       where worker_ids is not null;
      alter table events drop column sender;
      alter table api_keys drop column worker_ids;
    `);
  }
}
