import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The index of the order of all events. `events` is the largest table, so the index is built while others write. An invalid
 * index that an interrupted build left behind is replaced.
 */
export class IndexEventsByCommit1795000000013 implements MigrationInterface {
  transaction = false;

  async up(q: QueryRunner): Promise<void> {
    const [{ timeout }] = await q.query(`select current_setting('lock_timeout') as timeout`);
    // The build waits for every transaction that began before it; no other session waits for the build meanwhile.
    await q.query('set lock_timeout = 0');
    try {
      await q.query('drop index concurrently if exists events_by_commit');
      await q.query('create index concurrently events_by_commit on events (commit_order, run_id, index)');
    } finally {
      await q.query(`select set_config('lock_timeout', $1, false)`, [timeout]);
    }
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop index if exists events_by_commit');
  }
}
