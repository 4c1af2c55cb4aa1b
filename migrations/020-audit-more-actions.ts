import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The audit log also records changes of API keys, workers and definitions: what was done, and the id of what was changed.
 * Entries from before, and those that the previous version writes beside this one, are PATCHes of runs.
 */
export class AuditMoreActions1795000000020 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table audit_entries
        add column action text not null default 'run.patch',
        add column subject text,
        alter column run_id drop not null;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    // The previous version would show them as changes of runs.
    await q.query(`
      delete from audit_entries where run_id is null;
      alter table audit_entries
        drop column action,
        drop column subject,
        alter column run_id set not null;
    `);
  }
}
