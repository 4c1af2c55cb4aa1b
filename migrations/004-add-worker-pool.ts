import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The pool of workers that several server processes share, and when a draining worker was seen last.
 *
 * Heartbeats rewrite a row of `worker_pool` in place: no index but the primary key, half of every page kept free, and
 * what seldom changes (descriptions, running runs) pushed out of the row, so that a heartbeat writes its times only.
 */
export class AddWorkerPool1795000000004 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create unlogged table worker_pool (
        created_at timestamptz(3) not null,
        last_heartbeat_at timestamptz(3) not null,
        last_report_at timestamptz(3),
        previous_report_at timestamptz(3),
        description_hash uuid not null,
        running_hash uuid,
        worker_id text collate "C" primary key,
        description json not null,
        departed jsonb,
        running_ids jsonb,
        running_ops json
      ) with (
        fillfactor = 50,
        toast_tuple_target = 128,
        autovacuum_vacuum_scale_factor = 0,
        autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_threshold = 1000000
      );
      alter table worker_pool
        alter column description set storage external,
        alter column departed set storage external,
        alter column running_ids set storage external,
        alter column running_ops set storage external;

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
      drop table worker_pool_epoch, worker_pool;
    `);
  }
}
