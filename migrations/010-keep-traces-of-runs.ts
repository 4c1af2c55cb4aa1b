import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Where in a trace a run belongs, as the request that created it says (W3C Trace Context). Both columns are null for a run
 * that nobody traces, and take no room then; adding them does not rewrite the table.
 */
export class KeepTracesOfRuns1795000000010 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table runs
        add column traceparent text,
        add column tracestate text;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('alter table runs drop column traceparent, drop column tracestate');
  }
}
