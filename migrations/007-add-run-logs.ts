import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * What containers printed. Every chunk writes its log's row of `run_logs` anew: such a row is narrow, half of its page is
 * kept free, and the primary key is the only index. The lines are in `run_log_rows`, compressed, so PostgreSQL need not
 * try; a container that prints without end has rows dropped as fast as they come, which vacuum has to keep up with.
 *
 * Neither table refers to `runs`: the check of a foreign key would lock the run's row against those who change it. A
 * trigger notes the runs that are deleted instead, and what is noted in `run_log_removals` is removed in batches.
 */
export class AddRunLogs1795000000007 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create table run_logs (
        run_id uuid not null,
        attempt integer not null check (attempt between 1 and 1000),
        next_chunk integer not null check (next_chunk >= 0),
        next_line bigint not null check (next_line >= 0),
        printed_bytes bigint not null check (printed_bytes >= 0),
        unknown_gaps bigint not null check (unknown_gaps >= 0),
        weight bigint not null check (weight >= 0),
        tail_line bigint,
        tail_weight bigint,
        is_complete boolean not null,
        updated_at timestamptz(3) not null,
        worker_id text not null,
        primary key (run_id, attempt),
        constraint run_logs_tail check ((tail_line is null) = (tail_weight is null))
      ) with (
        fillfactor = 50,
        autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 1000,
        autovacuum_analyze_scale_factor = 0.05
      );

      create table run_log_rows (
        run_id uuid not null,
        attempt integer not null,
        first_line bigint not null check (first_line >= 0),
        line_count integer not null check (line_count >= 0),
        text_bytes bigint not null check (text_bytes >= 0),
        bytes_before bigint not null,
        unknown_gaps_before bigint not null,
        weight_before bigint not null,
        lines bytea not null,
        primary key (run_id, attempt, first_line)
      ) with (
        autovacuum_vacuum_scale_factor = 0.02,
        autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_insert_scale_factor = 0.1,
        toast.autovacuum_vacuum_scale_factor = 0.02,
        toast.autovacuum_vacuum_threshold = 2000
      );
      alter table run_log_rows alter column lines set storage external;

      create table run_log_removals (
        run_id uuid primary key,
        removed_at timestamptz(3) not null
      );
      create index run_log_removals_by_time on run_log_removals (removed_at, run_id);

      create function note_removed_runs() returns trigger language plpgsql as $$
      begin
        insert into run_log_removals (run_id, removed_at)
        select id, now()
          from removed
            on conflict (run_id) do nothing;
        return null;
      end
      $$;
      create trigger note_removed_runs after delete on runs
        referencing old table as removed
        for each statement execute function note_removed_runs();
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      drop trigger note_removed_runs on runs;
      drop function note_removed_runs();
      drop table run_log_removals, run_log_rows, run_logs;
    `);
  }
}
