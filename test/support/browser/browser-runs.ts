import type { DataSource } from 'typeorm';

/**
 * Runs that have been there for long: one each second before now, of every final state, and some that wait; only what
 * lists show of them.
 */
export async function seedRuns(dataSource: DataSource, count: number): Promise<void> {
  const now = new Date().toISOString();
  for (let first = 1; first <= count; first += PORTION) {
    await dataSource.query(SEED, [first, Math.min(first + PORTION - 1, count), now]);
  }
  await dataSource.query(COUNTS);
  await dataSource.query('analyze runs');
}

/** Runs that one statement inserts: all at once can take longer than a statement may, on a busy machine. */
const PORTION = 10_000;

const SEED = `
  insert into runs (
    id, state, outcome, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims,
    max_attempts, image, inputs, outputs_template, ram_mb, vram_mb, cpu, topic, definition_id,
    definition_version, worker_id, ended_worker, error_message, queued_at, assigned_at, started_at, finished_at,
    created_at, updated_at, size
  )
  select id, state, state, n % 7, case state when 'COMPLETED' then 100 else n % 100 end, 1 + n % 3, id, 0, 0, 0, 0,
         3, 'registry.example/team/image-' || n % 8, '{"page": 17}', '{}', 512, 0, 1,
         case when n % 5 = 0 then 'topic-' || n % 3 end,
         case when n % 4 = 0 then 'definition-' || n % 6 end,
         case when n % 4 = 0 then '1' end,
         worker, worker,
         case state when 'FAILED' then 'The container ended with exit code 1' end,
         at, at, at + interval '1 second', at + interval '1 second' * (2 + n % 50), at, at, octet_length('{"page": 17}{}')
    from (
      select n,
             $3::timestamptz - interval '1 minute' - n * interval '1 second' as at,
             gen_random_uuid() as id,
             'worker-' || n % 100 as worker,
             (array['COMPLETED', 'COMPLETED', 'FAILED', 'COMPLETED', 'CANCELLED'])[1 + n % 5] as state
        from generate_series($1::integer, $2::integer) as n
      offset 0
    ) run`;

/** The overview counts what commits of the service did, so what came another way has to be counted in. */
const COUNTS = `
  insert into run_counts
  select minute, 1000,
         sum(created), sum(cancelled), sum(completed), sum(failed),
         0, 0, 0, sum(in_cancelled), sum(in_completed), sum(in_failed)
    from (
      select date_trunc('minute', created_at) as minute, 1 as created, 0 as cancelled, 0 as completed, 0 as failed,
             (state = 'CANCELLED')::integer as in_cancelled, (state = 'COMPLETED')::integer as in_completed,
             (state = 'FAILED')::integer as in_failed
        from runs
      union all
      select date_trunc('minute', finished_at), 0, (state = 'CANCELLED')::integer, (state = 'COMPLETED')::integer,
             (state = 'FAILED')::integer, 0, 0, 0
        from runs
    ) happened
   group by minute`;
