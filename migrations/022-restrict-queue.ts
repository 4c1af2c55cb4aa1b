import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * The queue of the runs that not every claim may get at any time: those with requirements on their worker, and those with a
 * concurrency key. Processes of the version before do not read it. The triggers of migration 009 count its runs as well.
 *
 * A claim reads the rows that are admitted. Of the runs of a key, only as many are as the key has room for.
 *
 * The index of the runs in execution by key is built while others write; one that an interrupted build left behind is
 * replaced. What follows is one transaction.
 */
export class RestrictQueue1795000000022 implements MigrationInterface {
  transaction = false;

  async up(q: QueryRunner): Promise<void> {
    const [{ timeout }] = await q.query(`select current_setting('lock_timeout') as timeout`);
    // The build waits for every transaction that began before it; no other session waits for the build meanwhile.
    await q.query('set lock_timeout = 0');
    try {
      await q.query('drop index concurrently if exists runs_executing_by_key');
      await q.query(`
        create index concurrently runs_executing_by_key
            on runs (concurrency_key)
         where state in ('ASSIGNED', 'RUNNING') and concurrency_key is not null
      `);
    } finally {
      await q.query(`select set_config('lock_timeout', $1, false)`, [timeout]);
    }
    const [{ exists }] = await q.query(`select to_regclass('restricted_queue') is not null as exists`);
    if (exists) return;
    await q.query(`
      create table run_requirements (
        id uuid primary key,
        required text[] not null,
        lead text not null
      );
      create index run_requirements_by_lead on run_requirements (lead);
      create table concurrency_keys (
        key text primary key,
        executing integer not null
      ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
      create table restricted_queue (
        run_id uuid primary key,
        priority integer not null,
        created_at timestamp(3) with time zone not null,
        ram_mb integer not null,
        vram_mb integer not null,
        cpu integer not null,
        passed_over_at timestamp(3) with time zone,
        reserved_for text,
        avoided_worker text,
        requirement_id uuid not null,
        concurrency_key text,
        concurrency_limit integer,
        alike bigint not null,
        is_admitted boolean not null
      ) with (
        autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
      );
      create index restricted_queue_order on restricted_queue (priority desc, created_at, run_id);
      create index restricted_queue_claimable
          on restricted_queue (requirement_id, is_admitted, priority desc, created_at, run_id)
       where avoided_worker is null;
      create index restricted_queue_avoiding
          on restricted_queue (requirement_id, is_admitted, priority desc, created_at, run_id)
       where avoided_worker is not null;
      create index restricted_queue_passed_over
          on restricted_queue (requirement_id, priority desc, created_at, run_id)
       where is_admitted and passed_over_at is not null;
      create index restricted_queue_by_key
          on restricted_queue (concurrency_key, alike, priority desc, created_at, run_id)
       where concurrency_key is not null;
      create index restricted_queue_admitted
          on restricted_queue (concurrency_key)
       where is_admitted and concurrency_key is not null;
      create index restricted_queue_reserved on restricted_queue (reserved_for) where reserved_for is not null;
      create trigger count_queued_runs after insert on restricted_queue
        referencing new table as moved
        for each statement execute function count_queued_runs('1');
      create trigger count_dequeued_runs after delete on restricted_queue
        referencing old table as moved
        for each statement execute function count_queued_runs('-1');
    `);
  }

  /** Any worker may get the runs afterwards. */
  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      drop index if exists runs_executing_by_key;
      with moved as (
        delete from restricted_queue
     returning run_id, priority, created_at, ram_mb, vram_mb, cpu, avoided_worker
      )
      insert into run_queue (run_id, priority, created_at, ram_mb, vram_mb, cpu, avoided_worker)
      select m.*
        from moved m
        join runs r on r.id = m.run_id
       where r.state = 'PENDING'
         and r.not_before is null
          on conflict (run_id) do nothing;
      drop table restricted_queue, concurrency_keys, run_requirements;
    `);
  }
}
