import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The tags and capabilities to which an API key is bound, and one audit entry for each attempt and API key that reads
 * secrets. The index is built under a lock: until now, the audit log has changes by admins alone.
 */
export class BindKeysToTags1795000000026 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table api_keys
        add column worker_tags text[],
        add column worker_capabilities text[],
        add constraint api_keys_worker_tags_check
          check ((worker_tags is null and worker_capabilities is null) or scopes = array['worker']);
      create unique index audit_entries_secret_reads
          on audit_entries (run_id, (after ->> 'attempt'), (after ->> 'key_id'))
       where action = 'secret.read';
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    // The previous version would not know that a key is bound, and would show a read as a change.
    await q.query(`
      update api_keys
         set revoked_at = coalesce(revoked_at, date_trunc('milliseconds', now()))
       where worker_tags is not null or worker_capabilities is not null;
      drop index audit_entries_secret_reads;
      delete from audit_entries where action = 'secret.read';
      alter table api_keys drop column worker_tags, drop column worker_capabilities;
    `);
  }
}
