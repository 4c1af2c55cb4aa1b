import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Runs, their attempts and timelines, the queue, and the feed that mirrors timelines by topic. */
export class CreateRuns1795000000001 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      create table runs (
        id uuid primary key,
        state text not null
          check (state in ('PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED')),
        priority integer not null,
        progress smallint not null check (progress between 0 and 100),
        attempt integer not null check (attempt between 1 and 1000),
        attempt_id uuid not null,
        first_event integer not null check (first_event between 0 and event_count),
        event_count integer not null,
        failures integer not null check (failures >= 0),
        reclaims integer not null check (reclaims >= 0),
        max_attempts integer not null check (max_attempts between 1 and 1000),
        image text not null,
        inputs json not null,
        outputs_template json not null,
        outputs json,
        ram_mb integer not null check (ram_mb >= 0),
        vram_mb integer not null check (vram_mb >= 0),
        cpu integer not null check (cpu >= 0),
        gpu_id integer,
        topic text,
        attributes json,
        definition_id text,
        definition_version text,
        worker_id text,
        error_message text,
        queued_at timestamptz(3) not null,
        assigned_at timestamptz(3),
        started_at timestamptz(3),
        finished_at timestamptz(3),
        created_at timestamptz(3) not null,
        updated_at timestamptz(3) not null,
        constraint runs_finished_when_terminal
          check ((state in ('CANCELLED', 'COMPLETED', 'FAILED')) = (finished_at is not null)),
        constraint runs_pending_belongs_to_nobody
          check (state <> 'PENDING' or worker_id is null)
      ) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);

      create table attempts (
        run_id uuid not null references runs (id) on delete cascade,
        attempt integer not null,
        id uuid not null,
        state text not null
          check (state in ('PENDING', 'ASSIGNED', 'RUNNING', 'CANCELLED', 'COMPLETED', 'FAILED')),
        progress smallint not null check (progress between 0 and 100),
        outputs json,
        gpu_id integer,
        worker_id text,
        error_message text,
        first_event integer not null,
        end_event integer not null check (end_event >= first_event),
        queued_at timestamptz(3) not null,
        assigned_at timestamptz(3),
        started_at timestamptz(3),
        finished_at timestamptz(3) not null,
        primary key (run_id, attempt)
      );

      create table events (
        run_id uuid not null,
        index integer not null check (index >= 0),
        attempt integer not null,
        type text not null,
        state text not null,
        t timestamptz(3) not null,
        msg json not null,
        payload json not null,
        size integer not null check (size >= 0),
        primary key (run_id, index)
      ) with (autovacuum_vacuum_insert_scale_factor = 0.1);

      create table run_queue (
        run_id uuid primary key,
        priority integer not null,
        created_at timestamptz(3) not null,
        ram_mb integer not null,
        vram_mb integer not null,
        cpu integer not null
      ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

      create index run_queue_order on run_queue (priority desc, created_at, run_id);

      create table feed_topics (
        topic text primary key,
        last_position bigint not null
      ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

      create table feed_entries (
        topic text not null,
        position bigint not null,
        run_id uuid not null,
        event_index integer not null,
        recorded_at timestamptz(3) not null,
        primary key (topic, position)
      ) with (autovacuum_vacuum_insert_scale_factor = 0.1);
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query('drop table feed_entries, feed_topics, run_queue, events, attempts, runs');
  }
}
