import { setTimeout as sleep } from 'node:timers/promises';
import { goalLine, rowOf } from '../lib/pages/figures.mjs';
import { drive, warmUp } from '../lib/load/load.mjs';
import { postgresCpuSeconds, postmasterAt } from '../lib/servers/postgres-cpu.mjs';
import { inWords, sizesOf, startSeeded } from '../seed/seeded.mjs';

export const title = 'Retention beside load';
export const about =
  'The jobs of retention remove a backlog while clients do 200 lifecycles a second; everything was recorded a year ago and ' +
  'is due. A run has three events and a log of one row. Jobs pause after each batch for as long as the batch took. Those of ' +
  'feed entries, logs and keys run at the same time; the last row adds the time of the slowest of them to that of the runs. The rates ' +
  'are those between the first and the last removal; dead rows are those that vacuum has not removed at the end of the rounds. ' +
  'Lifecycles alone are measured on the same service, before the jobs begin a minute after its start.';
export const figures = {
  removedPerSecond: { title: 'rows removed', unit: '/s' },
  timesP99: { title: 'p99, times alone', unit: '' },
  walMbPerSecond: { title: 'WAL', unit: 'MB/s' },
  postgresCpuPercent: { title: 'CPU of PostgreSQL', unit: '%' },
};

const [RUNS] = sizesOf([1_000_000]);
const ROUNDS = 3;
const RATE = 200;

/** Rows of each kind for one run: a key for the create, the claim and two events. */
const ROWS_OF_A_RUN = { runs: 1, feed_entries: 3, run_log_rows: 1, idempotency_keys: 4 };

/** Runs a second that retention is to keep up with. */
const GOAL_PER_SECOND = 1_000;

/** Longest time from the start of the service to the first removal, in milliseconds. */
const BEGIN_MS = 120_000;

/** Logs of runs that have been removed, and idempotency keys. */
const LOGS_AND_KEYS = `
  insert into run_log_removals select gen_random_uuid(), now() - interval '1 day' from generate_series(1, ${RUNS});
  insert into run_logs
  select run_id, 1, 1, 10, 1000, 0, 1000, null, null, true, now(), 'worker-1' from run_log_removals;
  insert into run_log_rows
  select run_id, 1, 0, 10, 1000, 0, 0, 0, decode(repeat('5a', 500), 'hex') from run_log_removals;
  insert into idempotency_keys
  select md5(n::text) || md5((-n)::text), md5('x') || md5(n::text), gen_random_uuid(), now() - interval '1 year', null
    from generate_series(1::bigint, ${4 * RUNS}) n;
`;

/** What is due in each part of the measurement: its tables, the settings, and what to add to the seed. */
const PARTS = [
  {
    name: 'runs and their events',
    tables: ['runs'],
    env: { SERVICE_RUN_RETENTION_DAYS: '1', SERVICE_FEED_RETENTION_DAYS: '1' },
    add: 'truncate feed_entries, feed_topics',
  },
  {
    name: 'feed entries, logs and keys',
    tables: ['feed_entries', 'run_log_rows', 'idempotency_keys'],
    env: { SERVICE_FEED_RETENTION_DAYS: '1' },
    add: LOGS_AND_KEYS,
  },
];

/** For each part one row of lifecycles alone, one of lifecycles beside it, and one for each table. */
export async function measure({ seconds }) {
  const rows = [];
  const load = { scenario: 'lifecycle', clients: 32, seconds, rate: RATE };
  for (const { name, tables, env, add } of PARTS) {
    const service = await startSeeded({ finished: RUNS, env, add });
    try {
      const postgresPid = await postmasterAt(service.databaseUrl);
      const round = async () => {
        const before = await sample(service, postgresPid);
        const driven = await drive(service.url, load);
        const after = await sample(service, postgresPid);
        const rate = (figure) => (after[figure] - before[figure]) / ((after.at - before.at) / 1000);
        return {
          ...driven,
          walMbPerSecond: rate('wal') / 1e6,
          postgresCpuPercent: rate('postgres') * 100,
        };
      };
      await warmUp(service.url, load);
      const alone = [];
      for (let n = 0; n < ROUNDS; n += 1) alone.push(await round());
      const idle = await service.query(REMOVED);
      const follower = followRemovals(service, tables);
      await begun(service, tables, idle);
      const beside = [];
      for (let n = 0; n < ROUNDS; n += 1) {
        const figure = await round();
        beside.push({ ...figure, timesP99: figure.p99 / alone[n].p99 });
      }
      const rates = await follower.stop();
      const size = inWords(RUNS);
      rows.push({ label: `lifecycles alone, ${size} due: ${name}`, rounds: alone });
      rows.push({ label: `lifecycles beside removal of ${name}`, rounds: beside });
      for (const table of tables) {
        const dead = await service.query(
          'select n_dead_tup::integer as dead, autovacuum_count::integer as vacuums from pg_stat_user_tables where relname = $1',
          [table],
        );
        rows.push({ label: table, table, ...dead[0], rounds: [{ removedPerSecond: rates[table] }] });
      }
    } finally {
      await service.stop();
    }
  }
  const removedPerSecond = (table) => rows.find((row) => row.table === table).rounds[0].removedPerSecond;
  // The jobs of a part run at the same time, so that the slowest one counts.
  const secondsOfARun = PARTS.reduce(
    (sum, { tables }) =>
      sum + Math.max(...tables.map((table) => ROWS_OF_A_RUN[table] / removedPerSecond(table))),
    0,
  );
  rows.push({ label: SUSTAINED, rounds: [{ removedPerSecond: 1 / secondsOfARun }] });
  return rows;
}

const SUSTAINED = 'runs with everything that belongs to them, one part after the other';

/** @param rows as measured */
export function goals(rows) {
  const beside = PARTS.map(({ name }) => rowOf(rows, `lifecycles beside removal of ${name}`));
  return [
    goalLine(
      'runs removed, with events, feed entries, logs and keys',
      rowOf(rows, SUSTAINED).figures.removedPerSecond.median,
      { atLeast: GOAL_PER_SECOND },
      '/s',
    ),
    ...beside.map((row, n) =>
      goalLine(
        `lifecycle p99 beside removal of ${PARTS[n].name}, against alone`,
        row.figures.timesP99.median,
        {
          atMost: 1.5,
        },
      ),
    ),
  ];
}

const REMOVED = 'select relname as table, n_tup_del::bigint as removed from pg_stat_user_tables';

async function sample(service, postgresPid) {
  const [{ wal }] = await service.query(`select pg_current_wal_insert_lsn() - '0/0' as wal`);
  return { at: performance.now(), wal: Number(wal), postgres: await postgresCpuSeconds(postgresPid) };
}

/** Resolves when rows of all tables have been removed since. */
async function begun(service, tables, since) {
  const deadline = performance.now() + BEGIN_MS;
  while (performance.now() < deadline) {
    const rows = await service.query(REMOVED);
    if (tables.every((table) => removedOf(rows, table) > removedOf(since, table))) return;
    await sleep(500);
  }
  throw new Error(`no rows of ${tables.join(', ')} were removed`);
}

function removedOf(rows, table) {
  return Number(rows.find((row) => row.table === table)?.removed ?? 0);
}

/** Samples the removals of each table. @returns `stop()`, which resolves with rows a second by table */
function followRemovals(service, tables) {
  const samples = new Map(tables.map((table) => [table, []]));
  const end = new AbortController();
  const following = (async () => {
    while (!end.signal.aborted) {
      const at = performance.now();
      const rows = await service.query(REMOVED);
      for (const [table, list] of samples) {
        const removed = removedOf(rows, table);
        if (list.at(-1)?.removed !== removed) list.push({ at, removed });
      }
      await sleep(500);
    }
  })();
  return {
    async stop() {
      end.abort();
      await following;
      return Object.fromEntries([...samples].map(([table, list]) => [table, rateOf(list)]));
    },
  };
}

/** Between the first and the last sample that brought removals; the first one is from before. */
function rateOf([, first, ...rest]) {
  const last = rest.at(-1);
  return last === undefined ? Number.NaN : (last.removed - first.removed) / ((last.at - first.at) / 1000);
}
