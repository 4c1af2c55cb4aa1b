// Fills a database of the service with history and with pending runs, as if they had been made over a year.
import { withConnections } from './database.mjs';

/** When the oldest run was made, and how long all of them took to come, in milliseconds. */
const START = Date.parse('2025-01-01T00:00:00Z');
const SPAN = 365 * 86_400_000;

/** What stands out among the runs, for those who look for it. */
export const SEEDED = {
  /** Nine runs in ten, half of the runs, one in four, one in eight, and one in ten. */
  frequent: {
    state: 'COMPLETED',
    image: 'bench/image-0',
    op_definition: 'definition-0',
    topic: 'topic-0',
    label: 'team=vision',
  },
  /** Three runs, however many there are; of the state, a hundred. */
  rare: {
    state: 'CANCELLED',
    image: 'bench/image-rare',
    op_definition: 'definition-rare',
    topic: 'topic-rare',
    label: 'team=rare',
  },
  /** Each of the two has one run in twenty, and no run has both. */
  apart: { image: 'bench/image-apart', topic: 'topic-apart' },
};

/**
 * The run with the number n: `seed_id(n)` and what is shared by the statements below. Everything follows from n, so that
 * the tables agree without being joined.
 */
const FUNCTIONS = `
  create function pg_temp.seed_ms(n bigint, total bigint) returns bigint language sql immutable as
    $$ select ${START} + n * ${SPAN} / total $$;
  create function pg_temp.seed_at(n bigint, total bigint) returns timestamptz language sql immutable as
    $$ select to_timestamp(pg_temp.seed_ms(n, total) / 1000.0::double precision) $$;
  create function pg_temp.seed_id(n bigint, total bigint) returns uuid language sql immutable as
    $$ select (lpad(to_hex(pg_temp.seed_ms(n, total)), 12, '0')
               || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid $$;
  create function pg_temp.seed_hash(n bigint, salt integer) returns bigint language sql immutable as
    $$ select hashint8extended(n, salt) & 1048575 $$;
  create function pg_temp.is_rare(n bigint, total bigint) returns boolean language sql immutable as
    $$ select n in (total / 4, total / 2, total - total / 4) $$;
  create function pg_temp.seed_topic(n bigint, total bigint) returns text language sql immutable as
    $$ select case
                when pg_temp.is_rare(n, total) then 'topic-rare'
                when n % 40 = 1 or n % 40 = 21 then 'topic-apart'
                when pg_temp.seed_hash(n, 3) % 8 = 0 then 'topic-0'
                when pg_temp.seed_hash(n, 3) % 16 = 1 then 'topic-' || 1 + pg_temp.seed_hash(n, 4) % 8
              end $$;
`;

const RUN = `
  insert into runs (
    id, state, outcome, priority, progress, attempt, attempt_id, first_event, event_count, failures, reclaims, max_attempts,
    image, inputs, labels, outputs_template, outputs, ram_mb, vram_mb, cpu, topic, definition_id, definition_version,
    worker_id, ended_worker, error_message, queued_at, assigned_at, started_at, finished_at, created_at, updated_at, size
  )
  select id, state, case state when 'PENDING' then 'OPEN' else state end, hash % 5, case state when 'COMPLETED' then 100 else 0 end, 1, id, 0,
         case state when 'PENDING' then 0 else $4::integer end,
         case state when 'FAILED' then 1 else 0 end, 0, 1,
         image, '{"source":"s3://bench/input","page":17,"language":"en"}', labels, '{}',
         case state when 'COMPLETED' then '{"target":"s3://bench/output","rows":1234}'::json end,
         512, 0, 1, topic, definition_id, case when definition_id is not null then '1' end,
         case state when 'PENDING' then null else 'worker-' || hash % 100 end,
         case state when 'PENDING' then null else 'worker-' || hash % 100 end,
         case state when 'FAILED' then 'exit code 1' end,
         at, case state when 'PENDING' then null else at + interval '1 second' end,
         case state when 'PENDING' then null else at + interval '2 seconds' end,
         case state when 'PENDING' then null else at + interval '3 seconds' end,
         at, case state when 'PENDING' then at else at + interval '3 seconds' end,
         case state when 'COMPLETED' then 99 else 57 end
    from (
      select pg_temp.seed_id(n, $3) as id,
             pg_temp.seed_at(n, $3) as at,
             pg_temp.seed_hash(n, 1) as hash,
             pg_temp.seed_topic(n, $3) as topic,
             case
               when n >= $5::bigint then 'PENDING'
               when n % greatest($5::bigint / 100, 1) = 7 then 'CANCELLED'
               when pg_temp.seed_hash(n, 2) % 10 = 0 then 'FAILED'
               else 'COMPLETED'
             end as state,
             case
               when pg_temp.is_rare(n, $3) then 'bench/image-rare'
               when n % 20 = 2 then 'bench/image-apart'
               when pg_temp.seed_hash(n, 5) % 2 = 0 then 'bench/image-0'
               else 'bench/image-' || 1 + pg_temp.seed_hash(n, 6) % 8
             end as image,
             case
               when pg_temp.is_rare(n, $3) then 'definition-rare'
               when pg_temp.seed_hash(n, 7) % 4 = 0 then 'definition-0'
               when pg_temp.seed_hash(n, 7) % 4 = 1 then 'definition-' || 1 + pg_temp.seed_hash(n, 8) % 8
             end as definition_id,
             case
               when pg_temp.is_rare(n, $3) then '{"team":"rare"}'::json
               when n % 10 = 3 then '{"team":"vision"}'::json
             end as labels
        from generate_series($1::bigint, $2::bigint - 1) as n
      offset 0
    ) run`;

const EVENTS = `
  insert into events (run_id, index, attempt, type, state, t, msg, payload, size)
  select id, k, 1,
         case when k = 0 then 'STARTED' when k = $4::integer - 1 then 'COMPLETED' else 'PROGRESS' end,
         case when k < $4::integer - 1 then 'RUNNING' else 'COMPLETED' end,
         at + interval '2 seconds', '"note"', '{"worker_id":"worker-1"}', 30
    from (
      select pg_temp.seed_id(n, $3) as id, pg_temp.seed_at(n, $3) as at
        from generate_series($1::bigint, $2::bigint - 1) as n
      offset 0
    ) run
   cross join generate_series(0, $4::integer - 1) as k`;

const FEED = `
  insert into feed_entries (topic, position, run_id, event_index, recorded_at)
  select topic, row_number() over (partition by topic order by n, k), pg_temp.seed_id(n, $3), k,
         pg_temp.seed_at(n, $3) + interval '2 seconds'
    from (
      select n, pg_temp.seed_topic(n, $3) as topic
        from generate_series($1::bigint, $2::bigint - 1) as n
    ) run
   cross join generate_series(0, $4::integer - 1) as k
   where topic is not null`;

const TOPICS = `
  insert into feed_topics (topic, last_position, oldest_at)
  select topic, max(position), min(recorded_at) from feed_entries group by topic`;

const QUEUE = `
  insert into queue (run_id, priority, created_at, ram_mb, vram_mb, cpu_millis)
  select id, priority, created_at, ram_mb, vram_mb, cpu * 1000 from runs where state = 'PENDING'`;

/**
 * Fills the empty tables of a migrated database. Secondary indexes, keys included, are built after the rows.
 * @param shape `finished` and `pending`: numbers of runs, the pending ones being the youngest; `events`: events of each
 * finished run, 3 unless given; `say`: told of every step
 * @throws Error when the database holds runs already
 */
export async function fill(url, { finished, pending, events = 3, say = () => undefined }) {
  await withConnections(url, async (connect) => {
    const [first, second] = [await connect(), await connect()];
    for (const client of [first, second]) await client.query(FUNCTIONS);
    const { rowCount } = await first.query('select 1 from runs limit 1');
    if (rowCount > 0) throw new Error('the database holds runs already');
    const total = finished + pending;
    const load = (client, table, statements) =>
      timed(say, table, () =>
        withoutIndexes(client, table, async () => {
          for (const [sql, params] of statements) await client.query(sql, params);
        }),
      );
    await Promise.all([
      (async () => {
        await load(first, 'runs', [[RUN, [0, total, total, events, finished]]]);
        await load(first, 'queue', [[QUEUE, []]]);
      })(),
      (async () => {
        await load(second, 'events', [[EVENTS, [0, finished, total, events]]]);
        await load(second, 'feed_entries', [[FEED, [0, finished, total, events]]]);
        await load(second, 'feed_topics', [[TOPICS, []]]);
      })(),
    ]);
    await timed(say, 'vacuum', async () => {
      for (const table of ['runs', 'run_terms', 'events', 'feed_entries', 'feed_topics', 'queue']) {
        await first.query(`vacuum (freeze, analyze) ${table}`);
      }
    });
  });
}

async function timed(say, step, action) {
  const from = performance.now();
  await action();
  say(`${step}: ${Math.round((performance.now() - from) / 1000)} s`);
}

/**
 * Fills a table in one transaction that first empties it, so that a server with wal_level=minimal writes no log for it,
 * and builds its indexes and keys afterwards as they were.
 */
async function withoutIndexes(client, table, action) {
  const { rows: keys } = await client.query(
    `select conname as name, pg_get_constraintdef(oid) as definition
       from pg_constraint
      where conrelid = $1::regclass and contype in ('p', 'u')`,
    [table],
  );
  const { rows: foreign } = await client.query(
    `select conrelid::regclass as owner, conname as name, pg_get_constraintdef(oid) as definition
       from pg_constraint
      where confrelid = $1::regclass and contype = 'f'`,
    [table],
  );
  const { rows: indexes } = await client.query(
    `select i.indexrelid::regclass as name, pg_get_indexdef(i.indexrelid) as definition
       from pg_index i
      where i.indrelid = $1::regclass
        and not exists (select 1 from pg_constraint c where c.conindid = i.indexrelid)`,
    [table],
  );
  await client.query('begin');
  for (const { owner, name } of foreign) await client.query(`alter table ${owner} drop constraint ${name}`);
  for (const { name } of indexes) await client.query(`drop index ${name}`);
  for (const { name } of keys) await client.query(`alter table ${table} drop constraint ${name}`);
  await client.query(`truncate ${table}`);
  await action();
  for (const { name, definition } of keys) {
    await client.query(`alter table ${table} add constraint ${name} ${definition}`);
  }
  for (const { definition } of indexes) await client.query(definition);
  for (const { owner, name, definition } of foreign) {
    await client.query(`alter table ${owner} add constraint ${name} ${definition}`);
  }
  await client.query('commit');
}
