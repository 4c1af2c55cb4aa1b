import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The pool of workers that several server processes share, and when a draining worker was seen last.
 *
 * A heartbeat writes a row of `worker_pool` anew: such a row is narrow, half of its page is kept free so that the new
 * version fits beside the old one, and the primary key, which does not change, is the only index. What a worker says of
 * itself is in `worker_pool_words`, where a row is written only when it says something else than before.
 */
export class AddWorkerPool1795000000004 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create unlogged table worker_pool (
        created_at timestamptz(3) not null,
        last_heartbeat_at timestamptz(3) not null,
        last_report_at timestamptz(3),
        previous_report_at timestamptz(3),
        worker_id text collate "C" primary key
      ) with (
        fillfactor = 50,
        autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_threshold = 1000000
      );

      create unlogged table worker_pool_words (
        description_hash uuid not null,
        running_hash uuid,
        worker_id text collate "C" primary key,
        description json not null,
        departed jsonb,
        running_ids jsonb,
        running_ops json
      ) with (
        fillfactor = 70,
        autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_threshold = 100000
      );

      create unlogged table worker_pool_epoch (
        only_row boolean primary key default true check (only_row),
        started_at timestamptz(3) not null
      );

      alter table worker_drains add column seen_at timestamptz(3) not null default now();
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table worker_drains drop column seen_at;
      drop table worker_pool_epoch, worker_pool_words, worker_pool;
    `);
  }
}
