import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The index of the pending runs that avoid a worker; it is empty as long as none does. It is built while others write. An
 * invalid index that an interrupted build left behind is replaced.
 */
export class IndexAvoidingRuns1795000000018 implements MigrationInterface {
  transaction = false;

  async up(q: QueryRunner): Promise<void> {
    const [{ timeout }] = await q.query(`select current_setting('lock_timeout') as timeout`);
    // The build waits for every transaction that began before it; no other session waits for the build meanwhile.
    await q.query('set lock_timeout = 0');
    try {
      await q.query('drop index concurrently if exists run_queue_avoiding');
      await q.query(`
        create index concurrently run_queue_avoiding
            on run_queue (cpu, ram_mb, vram_mb, priority desc, created_at, run_id)
         where avoided_worker is not null
      `);
    } finally {
      await q.query(`select set_config('lock_timeout', $1, false)`, [timeout]);
    }
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop index if exists run_queue_avoiding');
  }
}
