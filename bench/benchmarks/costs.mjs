import pg from 'pg';
import { startCluster } from '../lib/servers/cluster.mjs';
import { goalLine, rowOf } from '../lib/pages/figures.mjs';
import { driveCounting, warmUp } from '../lib/load/load.mjs';
import { startCountingProxy } from '../lib/servers/counting-proxy.mjs';
import { peerSubjects } from '../lib/servers/peers.mjs';
import { postgresCpuSeconds, findPostmaster } from '../lib/servers/postgres-cpu.mjs';
import { openWalMeter } from '../lib/servers/wal-meter.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';

export const title = 'What a unit costs';
export const about =
  'CPU of the server process and of PostgreSQL, write-ahead log and disk, for a whole lifecycle (create, claim, STARTED, ' +
  'COMPLETED with 500 B of inputs and of outputs, on a topic unless the row says so), an event and a heartbeat; for lifecycles ' +
  'also how many commands a commit of the journal held and how long it took. docs/scaling.md calculates with these figures. ' +
  'Records, row versions and the part of updates that wrote no index (HOT) are read from the write-ahead log; ' +
  'statements are what PostgreSQL gets of one client, begins and commits included. These and the bytes hardly depend on the ' +
  'machine. Peers store the same inputs and outputs, without attempts, timeline or feed.';

export const needsPeers = true;

export const figures = {
  cpuUs: { title: 'server CPU', unit: 'µs' },
  databaseUs: { title: 'PostgreSQL CPU', unit: 'µs' },
  walBytes: { title: 'WAL', unit: 'B' },
  walRecords: { title: 'records', unit: '' },
  walPages: { title: 'full pages', unit: 'B' },
  rowVersions: { title: 'row versions', unit: '' },
  hotShare: { title: 'HOT', unit: '' },
  statements: { title: 'statements', unit: '' },
  diskBytes: { title: 'disk', unit: 'B' },
  groupSize: { title: 'commands a commit', unit: '' },
  commitMs: { title: 'a commit', unit: 'ms' },
};

export const plots = [
  { title: 'CPU of the server process a unit, µs', figure: 'cpuUs' },
  { title: 'CPU of PostgreSQL a unit, µs', figure: 'databaseUs' },
];

const ON_TOPIC = 'lifecycle, 64 clients';
const PLAIN = 'lifecycle, 64 clients, no topic';
const COUNTED = 'lifecycle, 1 client, statements';
const COUNTED_PLAIN = 'lifecycle, 1 client, no topic, statements';
const GOALS = [
  [PLAIN, 'walBytes', 'WAL', 4500, ' B'],
  [PLAIN, 'walRecords', 'records', 24, ''],
  [ON_TOPIC, 'walBytes', 'WAL', 6000, ' B'],
  [ON_TOPIC, 'walRecords', 'records', 32, ''],
  [COUNTED_PLAIN, 'statements', 'statements', 22, ''],
  [COUNTED, 'statements', 'statements', 26, ''],
];

/** Commits of a lifecycle: create, claim, STARTED, COMPLETED. */
const COMMITS = 4;

/** @param rows as measured */
export function goals(rows) {
  const { p50, commitMs } = rowOf(rows, 'lifecycle, 1 client').figures;
  const rest = p50.median - COMMITS * (commitMs?.median ?? Number.NaN);
  return [
    goalLine(
      'a lifecycle of one client, p50, without the time of its four commits',
      rest,
      { atMost: 2 },
      ' ms',
    ),
    ...GOALS.map(([label, name, what, most, unit]) =>
      goalLine(
        `${what}, ${label}`,
        rowOf(rows, label).figures[name]?.median ?? Number.NaN,
        { atMost: most },
        unit,
      ),
    ),
  ];
}

/** One row a kind of unit and number of clients. */
export async function measure({ seconds }) {
  return withOpen(async (keep) => {
    const subjects = [];
    for (const pool of ['memory', 'shared']) {
      const cluster = await keep(startCluster());
      const service = await keep(
        startService({ DATABASE_URL: cluster.url, SERVICE_WORKER_POOL: pool, SERVICE_WORKERS: '1' }),
      );
      const meter = await keep(openMeter(cluster.url, service.url));
      const subject = (label, load) => ({
        label,
        warmUp: () => warmUp(service.url, { ...load, seconds }),
        round: () => meter.around(() => driveCounting(service, { ...load, seconds })),
      });
      if (pool === 'shared') {
        subjects.push(subject('heartbeat, shared pool', { scenario: 'heartbeat', clients: 256 }));
        continue;
      }
      for (const clients of [1, 16, 64, 256]) {
        const load = { scenario: 'lifecycle', clients, options: { topic: 'hot' } };
        subjects.push(subject(`lifecycle, ${clients} client${clients > 1 ? 's' : ''}`, load));
      }
      for (const [label, topic] of [
        ['lifecycle, bulk calls, 4 clients', 'hot'],
        ['lifecycle, bulk calls, 4 clients, no topic', null],
      ])
        subjects.push(subject(label, { scenario: 'bulkLifecycle', clients: 4, options: { topic } }));
      subjects.push(
        subject(PLAIN, { scenario: 'lifecycle', clients: 64 }),
        subject('event, 64 clients', { scenario: 'append', clients: 64 }),
        subject('heartbeat, memory pool', { scenario: 'heartbeat', clients: 64 }),
      );
    }
    const counted = await statementSubjects(keep, seconds);
    return inTurn([...subjects, ...counted, ...(await peerSubjects(keep, seconds, openWalMeter))]);
  });
}

/** Lifecycles of a service whose statements are counted on their way. */
async function statementSubjects(keep, seconds) {
  const cluster = await keep(startCluster());
  const proxy = await keep(startCountingProxy(cluster.url));
  const service = await keep(startService({ DATABASE_URL: proxy.url, SERVICE_WORKERS: '1' }));
  return [
    [COUNTED, 'hot'],
    [COUNTED_PLAIN, null],
  ].map(([label, topic]) => {
    const load = { scenario: 'lifecycle', clients: 1, options: { topic }, seconds };
    return {
      label,
      warmUp: () => warmUp(service.url, load),
      round: async () => {
        const before = proxy.statements();
        const { units } = await driveCounting(service, load);
        return { statements: (proxy.statements() - before) / units };
      },
    };
  });
}

/** Reads what PostgreSQL and the journal count, before and after something. */
async function openMeter(databaseUrl, serviceUrl) {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  const { rows } = await client.query('select pg_backend_pid() as pid');
  const postmaster = await findPostmaster(rows[0].pid);
  const wal = await openWalMeter(databaseUrl);
  const read = async () => {
    const found = await client.query(`select pg_database_size(current_database())::float8 as disk`);
    return {
      ...found.rows[0],
      cpu: await postgresCpuSeconds(postmaster),
      ...(await journalCounts(serviceUrl)),
    };
  };
  return {
    async around(drive) {
      const before = await read();
      let units = 0;
      const written = await wal.around(async () => {
        const driven = await drive();
        ({ units } = driven);
        return driven;
      });
      const after = await read();
      const spent = (name) => after[name] - before[name];
      const groups = spent('groups');
      return {
        ...written,
        databaseUs: (spent('cpu') * 1e6) / units,
        diskBytes: spent('disk') / units,
        ...(groups > 10
          ? { groupSize: spent('commands') / groups, commitMs: (spent('seconds') * 1e3) / groups }
          : {}),
      };
    },
    stop: async () => {
      await wal.stop();
      await client.end();
    },
  };
}

async function journalCounts(url) {
  const response = await fetch(`${url}/metrics`, { headers: { 'X-API-Key': KEY } });
  const text = await response.text();
  const value = (name) => Number(new RegExp(`^${name} (.+)$`, 'm').exec(text)?.[1] ?? 0);
  return {
    commands: value('longshore_journal_group_size_sum'),
    groups: value('longshore_journal_group_size_count'),
    seconds: value('longshore_journal_commit_seconds_sum'),
  };
}
