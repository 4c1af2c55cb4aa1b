import type { MigrationInterface, QueryRunner } from 'typeorm';

/** What is counted of ready and of waiting runs, with the value that a run adds. */
const MEASURES: Readonly<Record<string, string>> = {
  runs: '1',
  cpu: 'cpu',
  ram_mb: 'ram_mb',
  vram_mb: 'vram_mb',
  gpus: 'sign(vram_mb)',
};
const COLUMN_NAME = /cpu|ram_mb|vram_mb/;
const SUMS = ['ready', 'waiting'].flatMap((stage) =>
  Object.keys(MEASURES).map((measure) => `${stage}_${measure}`),
);
const COLUMNS = ['held_back', ...SUMS];

/** The `insert` of a change: the columns of the stage, and those given. */
function addChange(stage: 'ready' | 'waiting', also: readonly string[], select: string): string {
  const columns = [...also, ...Object.keys(MEASURES).map((measure) => `${stage}_${measure}`)];
  return addTo(columns, select);
}

function addTo(columns: readonly string[], select: string): string {
  return `
        insert into requirement_demand_changes as d (since, slot, requirement_id, required, ${columns.join(', ')})
        ${select}
            on conflict (since, slot, requirement_id) do update
           set required = greatest(d.required, excluded.required),
               ${columns.map((name) => `${name} = d.${name} + excluded.${name}`).join(',\n               ')};`;
}

/** The columns that one run adds to in a stage. */
function presentRows(alias: string, stage: 'ready' | 'waiting', heldBack: string): string {
  const values = SUMS.map((name) => {
    const measure = MEASURES[name.slice(stage.length + 1)];
    return name.startsWith(stage) && measure ? `${measure.replace(COLUMN_NAME, `${alias}.$&`)}::bigint` : '0';
  });
  return [heldBack, ...values].map((value, i) => `${value} as ${COLUMNS[i] ?? ''}`).join(', ');
}

/**
 * Counts of pending runs by their requirements, as migration 009 counts them by their shape: changes by connection and
 * second, which a job sums up in `requirement_demand`. Triggers on the restricted queue count the ready runs, row triggers on
 * `runs` those in back-off or before their `start_at`; their conditions let through only runs with requirements. A row has the
 * requirements themselves, because the runs that are counted may all wait outside the queue.
 *
 * Runs with a concurrency key and without requirements have the nil UUID. The row with the largest UUID has the sums of all.
 */
export class CountDemandByRequirements1795000000025 implements MigrationInterface {
  async up(q: QueryRunner): Promise<void> {
    const columns = COLUMNS.map((name) => `${name} bigint not null default 0`).join(',\n        ');
    await q.query(`
      create table requirement_demand_changes (
        since timestamp with time zone not null,
        slot integer not null,
        requirement_id uuid not null,
        required text[] not null,
        ${columns},
        primary key (since, slot, requirement_id)
      ) with (fillfactor = 40, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
      create table requirement_demand (
        requirement_id uuid primary key,
        required text[] not null,
        ${columns}
      ) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 1000);
      create index requirement_demand_largest on requirement_demand ((ready_runs + waiting_runs) desc);

      create function required_by(selector json, container json) returns text[] language sql immutable as $$
        select coalesce(array_agg(distinct required collate "C"), '{}')
          from (
                 select 'tag:' || tag as required
                   from json_array_elements_text(coalesce(selector, '[]')) as tag
                  union all
                 select 'capability:' || capability
                   from (values ('env', 'env'), ('command', 'command'), ('args', 'command'),
                                ('secrets', 'secrets'), ('image_pull_secret', 'registry')) as needs (option, capability)
                  where container -> option is not null
               ) all_of_them
      $$;

      create function count_restricted_runs() returns trigger language plpgsql set search_path from current as $$
      begin${addChange(
        'ready',
        ['held_back'],
        `select date_trunc('second', now()), pg_backend_pid(), m.requirement_id,
               coalesce((select r.required from run_requirements r where r.id = m.requirement_id), '{}'),
               count(*) filter (where not m.is_admitted) * tg_argv[0]::integer,
               ${Object.values(MEASURES)
                 .map((value) => `sum((${value})::bigint) * tg_argv[0]::integer`)
                 .join(',\n               ')}
          from moved m
         group by m.requirement_id`,
      )}
        return null;
      end
      $$;
      create trigger count_restricted_runs after insert on restricted_queue
        referencing new table as moved
        for each statement execute function count_restricted_runs('1');
      create trigger count_removed_restricted_runs after delete on restricted_queue
        referencing old table as moved
        for each statement execute function count_restricted_runs('-1');

      create function count_held_back_runs() returns trigger language plpgsql set search_path from current as $$
      begin${addTo(
        ['held_back'],
        `select date_trunc('second', now()), pg_backend_pid(), m.requirement_id, '{}', sum(m.change)
          from (
                 select requirement_id, 1 as change from after where not is_admitted
                  union all
                 select requirement_id, -1 from before where not is_admitted
               ) m
         group by m.requirement_id
        having sum(m.change) <> 0`,
      )}
        return null;
      end
      $$;
      create trigger count_held_back_runs after update on restricted_queue
        referencing old table as before new table as after
        for each statement execute function count_held_back_runs();

      create function count_restricted_back_off() returns trigger language plpgsql set search_path from current as $$
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
        end if;${addChange(
          'waiting',
          [],
          `values (
          date_trunc('second', now()), pg_backend_pid(), run.requirement_id,
          required_by(run.selector, run.container),
          ${Object.values(MEASURES)
            .map((value) => `change * ${value.replace(COLUMN_NAME, 'run.$&')}::bigint`)
            .join(', ')}
        )`,
        )}
        return null;
      end
      $$;
      create trigger count_restricted_back_off after update on runs
        for each row
        when ((old.not_before is null) <> (new.not_before is null) and new.requirement_id is not null)
        execute function count_restricted_back_off();
      create trigger count_new_restricted_back_off after insert on runs
        for each row when (new.not_before is not null and new.requirement_id is not null)
        execute function count_restricted_back_off();
      create trigger count_removed_restricted_back_off after delete on runs
        for each row when (old.not_before is not null and old.requirement_id is not null)
        execute function count_restricted_back_off();

      create function count_no_restricted_runs() returns trigger language plpgsql set search_path from current as $$
      begin
        insert into requirement_demand_changes as d (since, slot, requirement_id, required, ${COLUMNS.join(', ')})
        select date_trunc('second', now()), pg_backend_pid(), requirement_id, '{}',
               ${COLUMNS.map((name) => {
                 const table = name.startsWith('waiting') ? 'runs' : 'restricted_queue';
                 return `case when tg_table_name = '${table}' then -sum(${name}) else 0 end`;
               }).join(',\n               ')}
          from (
                 select requirement_id, ${COLUMNS.join(', ')}
                   from requirement_demand_changes
                  union all
                 select requirement_id, ${COLUMNS.join(', ')}
                   from requirement_demand
                  where requirement_id <> 'ffffffff-ffff-ffff-ffff-ffffffffffff'
               ) counted
         group by requirement_id
            on conflict (since, slot, requirement_id) do update
           set ${COLUMNS.map((name) => `${name} = d.${name} + excluded.${name}`).join(',\n               ')};
        return null;
      end
      $$;
      create trigger count_emptied_restricted_queue after truncate on restricted_queue
        for each statement execute function count_no_restricted_runs();
      create trigger count_emptied_restricted_runs after truncate on runs
        for each statement execute function count_no_restricted_runs();

      insert into requirement_demand_changes (since, slot, requirement_id, required, ${COLUMNS.join(', ')})
      select date_trunc('second', now()), pg_backend_pid(), requirement_id, max(required), ${COLUMNS.map((name) => `sum(${name})`).join(', ')}
        from (
               select q.requirement_id, coalesce(n.required, '{}') as required, ${presentRows('q', 'ready', '(not q.is_admitted)::integer')}
                 from restricted_queue q
                 left join run_requirements n on n.id = q.requirement_id
                union all
               select r.requirement_id, required_by(r.selector, r.container), ${presentRows('r', 'waiting', '0')}
                 from run_deadlines d
                 join runs r on r.id = d.run_id
                where r.not_before is not null
                  and r.requirement_id is not null
             ) present
       group by requirement_id;
    `);
  }

  async down(q: QueryRunner): Promise<void> {
    await q.query(`
      drop trigger count_emptied_restricted_runs on runs;
      drop trigger count_emptied_restricted_queue on restricted_queue;
      drop trigger count_removed_restricted_back_off on runs;
      drop trigger count_new_restricted_back_off on runs;
      drop trigger count_restricted_back_off on runs;
      drop trigger count_held_back_runs on restricted_queue;
      drop trigger count_removed_restricted_runs on restricted_queue;
      drop trigger count_restricted_runs on restricted_queue;
      drop function count_no_restricted_runs();
      drop function count_restricted_back_off();
      drop function count_held_back_runs();
      drop function count_restricted_runs();
      drop function required_by(json, json);
      drop table requirement_demand, requirement_demand_changes;
    `);
  }
}
