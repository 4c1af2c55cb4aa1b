import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Counts of pending runs by their shape (what they ask of the hardware): `ready` are those in the queue, `waiting` those in
 * back-off. A row of `run_demand_changes` holds by how much the commits of one connection (its slot) changed them in one
 * second. Seconds that are over are summed up in `run_demand`, and over all shapes in the row of `run_demand_sums`; what is
 * there together with the changes is what there is now. The shapes with the most runs are found by an index, which only the
 * table that is seldom written to can bear.
 *
 * Triggers count, so that whatever writes to the queue is counted, programs that know nothing of these tables as well. A
 * statement on the queue is counted as a whole. A program that restores a backup sets no search path; the functions bring theirs. On `runs` the condition of the trigger lets through only runs whose
 * back-off begins or ends, and each is counted by itself. Nothing changes the shape of a run that there is.
 *
 * Queue and runs have to be locked at once, and a commit may come to them in either order: the second is waited for less
 * long than deadlocks are looked for, and whoever is in the way goes on before the migration is tried again.
 */
export class CountDemand1795000000009 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    await q.query(`
      lock table runs in exclusive mode;
      set local lock_timeout = '500ms';
      lock table run_queue in share row exclusive mode;

      create table run_demand_changes (
        since timestamp with time zone not null,
        slot integer not null,
        cpu integer not null,
        ram_mb integer not null,
        vram_mb integer not null,
        ready bigint not null,
        waiting bigint not null,
        primary key (since, slot, cpu, ram_mb, vram_mb)
      ) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
      create table run_demand (
        cpu integer not null,
        ram_mb integer not null,
        vram_mb integer not null,
        ready bigint not null,
        waiting bigint not null,
        primary key (cpu, ram_mb, vram_mb)
      ) with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
      create table run_demand_sums (
        only_row boolean primary key default true check (only_row),
        ready_runs bigint not null,
        ready_cpu bigint not null,
        ready_ram_mb bigint not null,
        ready_vram_mb bigint not null,
        ready_gpus bigint not null,
        waiting_runs bigint not null,
        waiting_cpu bigint not null,
        waiting_ram_mb bigint not null,
        waiting_vram_mb bigint not null,
        waiting_gpus bigint not null
      ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
      insert into run_demand
      select cpu, ram_mb, vram_mb, sum(ready), sum(waiting)
        from (
               select cpu, ram_mb, vram_mb, 1 as ready, 0 as waiting
                 from run_queue
                union all
               select cpu, ram_mb, vram_mb, 0, 1
                 from runs
                where state = 'PENDING'
                  and max_attempts > 0
                  and not_before is not null
             ) pending
       group by cpu, ram_mb, vram_mb;
      create index run_demand_largest on run_demand ((ready + waiting) desc);
      insert into run_demand_sums
      select true,
             coalesce(sum(ready), 0), coalesce(sum(ready * cpu), 0), coalesce(sum(ready * ram_mb), 0),
             coalesce(sum(ready * vram_mb), 0), coalesce(sum(ready) filter (where vram_mb > 0), 0),
             coalesce(sum(waiting), 0), coalesce(sum(waiting * cpu), 0), coalesce(sum(waiting * ram_mb), 0),
             coalesce(sum(waiting * vram_mb), 0), coalesce(sum(waiting) filter (where vram_mb > 0), 0)
        from run_demand;

      create function count_queued_runs() returns trigger language plpgsql set search_path from current as $$
      begin
        insert into run_demand_changes as d (since, slot, cpu, ram_mb, vram_mb, ready, waiting)
        select date_trunc('second', now()), pg_backend_pid(), cpu, ram_mb, vram_mb, count(*) * tg_argv[0]::integer, 0
          from moved
         group by cpu, ram_mb, vram_mb
            on conflict (since, slot, cpu, ram_mb, vram_mb) do update
           set ready = d.ready + excluded.ready;
        return null;
      end
      $$;
      create trigger count_queued_runs after insert on run_queue
        referencing new table as moved
        for each statement execute function count_queued_runs('1');
      create trigger count_dequeued_runs after delete on run_queue
        referencing old table as moved
        for each statement execute function count_queued_runs('-1');

      create function count_back_off() returns trigger language plpgsql set search_path from current as $$
      declare
        run record;
        change integer := -1;
      begin
        if tg_op = 'DELETE' then
          run := old;
        else
          run := new;
          if new.not_before is not null then
            change := 1;
          end if;
        end if;
        insert into run_demand_changes as d (since, slot, cpu, ram_mb, vram_mb, ready, waiting)
        values (
          date_trunc('second', now()), pg_backend_pid(), run.cpu, run.ram_mb, run.vram_mb, 0, change
        )
            on conflict (since, slot, cpu, ram_mb, vram_mb) do update
           set waiting = d.waiting + excluded.waiting;
        return null;
      end
      $$;
      create trigger count_back_off after update on runs
        for each row when ((old.not_before is null) <> (new.not_before is null))
        execute function count_back_off();
      create trigger count_new_back_off after insert on runs
        for each row when (new.not_before is not null)
        execute function count_back_off();
      create trigger count_removed_back_off after delete on runs
        for each row when (old.not_before is not null)
        execute function count_back_off();

      create function count_nothing_pending() returns trigger language plpgsql set search_path from current as $$
      begin
        insert into run_demand_changes as d (since, slot, cpu, ram_mb, vram_mb, ready, waiting)
        select date_trunc('second', now()), pg_backend_pid(), cpu, ram_mb, vram_mb,
               case when tg_table_name = 'run_queue' then -sum(ready) else 0 end,
               case when tg_table_name = 'runs' then -sum(waiting) else 0 end
          from (
                 select cpu, ram_mb, vram_mb, ready, waiting
                   from run_demand_changes
                  union all
                 select cpu, ram_mb, vram_mb, ready, waiting
                   from run_demand
               ) counted
         group by cpu, ram_mb, vram_mb
            on conflict (since, slot, cpu, ram_mb, vram_mb) do update
           set ready = d.ready + excluded.ready,
               waiting = d.waiting + excluded.waiting;
        return null;
      end
      $$;
      create trigger count_emptied_queue after truncate on run_queue
        for each statement execute function count_nothing_pending();
      create trigger count_emptied_runs after truncate on runs
        for each statement execute function count_nothing_pending();
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      drop trigger count_emptied_runs on runs;
      drop trigger count_emptied_queue on run_queue;
      drop trigger count_removed_back_off on runs;
      drop trigger count_new_back_off on runs;
      drop trigger count_back_off on runs;
      drop trigger count_dequeued_runs on run_queue;
      drop trigger count_queued_runs on run_queue;
      drop function count_nothing_pending();
      drop function count_back_off();
      drop function count_queued_runs();
      drop table run_demand_sums, run_demand, run_demand_changes;
    `);
  }
}
