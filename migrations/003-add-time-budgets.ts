import type { MigrationInterface, QueryRunner } from 'typeorm';

/** Time budgets and back-off of runs, reservations in the queue, keys of events and claims, runs by their worker. */
export class AddTimeBudgets1795000000003 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      alter table runs
        add column start_within_s integer check (start_within_s >= 1),
        add column attempt_timeout_s integer check (attempt_timeout_s >= 1),
        add column backoff_s integer not null default 0 check (backoff_s >= 0),
        add column max_backoff_s integer not null default 0 check (max_backoff_s >= 0),
        add column not_before timestamptz(3),
        add constraint runs_back_off_while_pending check (not_before is null or state = 'PENDING');
      create index runs_in_execution on runs (worker_id, id)
        where state in ('ASSIGNED', 'RUNNING') and worker_id is not null;

      alter table definitions
        add column start_within_s integer check (start_within_s >= 1),
        add column attempt_timeout_s integer check (attempt_timeout_s >= 1),
        add column backoff_s integer not null default 0 check (backoff_s >= 0),
        add column max_backoff_s integer not null default 0 check (max_backoff_s >= 0);

      create table run_deadlines (
        run_id uuid primary key,
        due_at timestamptz(3) not null
      ) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
      create index run_deadlines_by_time on run_deadlines (due_at);

      alter table run_queue
        add column passed_over_at timestamptz(3),
        add column reserved_for text;
      create index run_queue_passed_over on run_queue (priority desc, created_at, run_id)
        where passed_over_at is not null;
      create index run_queue_reserved on run_queue (reserved_for)
        where reserved_for is not null;

      alter table idempotency_keys
        alter column run_id drop not null,
        add column claimed uuid[];

      create table worker_drains (
        worker_id text primary key,
        drained_at timestamptz(3) not null
      );
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      drop table worker_drains, run_deadlines;
      delete from idempotency_keys where run_id is null;
      alter table idempotency_keys drop column claimed, alter column run_id set not null;
      drop index run_queue_passed_over, run_queue_reserved;
      alter table run_queue drop column passed_over_at, drop column reserved_for;
      alter table definitions
        drop column start_within_s, drop column attempt_timeout_s, drop column backoff_s, drop column max_backoff_s;
      drop index runs_in_execution;
      alter table runs
        drop constraint runs_back_off_while_pending,
        drop column start_within_s, drop column attempt_timeout_s, drop column backoff_s,
        drop column max_backoff_s, drop column not_before;
    `);
  }
}
