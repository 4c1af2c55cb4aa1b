import { bareLike, loadSubject } from '../lib/load/beside-bare.mjs';
import { driveCounting, warmUp } from '../lib/load/load.mjs';
import { goalLine, ratio } from '../lib/pages/figures.mjs';
import { inTurn, withOpen } from '../lib/rounds.mjs';
import { createRunsToRead } from './read.mjs';
import { heartbeatOf } from '../lib/load/scenarios.mjs';
import { startCluster } from '../lib/servers/cluster.mjs';
import { startService } from '../lib/servers/service.mjs';
import { openWalMeter } from '../lib/servers/wal-meter.mjs';

export const title = 'Two builds';
export const about =
  'The build under test and an earlier one (the dist folder named by BENCH_BEFORE), each with a PostgreSQL of its own, ' +
  'measured in turn in one run. 64 clients; bulk: 4 clients with 100 items a request; poll: of events with nothing new. ' +
  'CPU is that of the server process. What PostgreSQL wrote is read from the write-ahead log.';

export const figures = {
  walBytes: { title: 'WAL', unit: 'B' },
  walRecords: { title: 'records', unit: '' },
  walPages: { title: 'full pages', unit: 'B' },
  rowVersions: { title: 'row versions', unit: '' },
  hotShare: { title: 'HOT', unit: '' },
};

const ROUNDS = 6;
const LOADS = [
  { name: 'heartbeat', load: { scenario: 'heartbeat', clients: 64 } },
  { name: 'create', load: { scenario: 'create', clients: 64 } },
  { name: 'lifecycle', load: { scenario: 'lifecycle', clients: 64 }, atLeast: 0.9 },
  { name: 'lifecycle, 16 clients', load: { scenario: 'lifecycle', clients: 16 } },
  { name: 'lifecycle, 1 client', load: { scenario: 'lifecycle', clients: 1 } },
  { name: 'bulk lifecycle', load: { scenario: 'bulkLifecycle', clients: 4 }, atLeast: 1 },
];
const BARE = 'heartbeat, bare node:http';

/**
 * One row for each load and build, and one for heartbeats to a bare server.
 * @throws Error when BENCH_BEFORE is not set
 */
export async function measure({ seconds }) {
  const before = process.env.BENCH_BEFORE;
  if (!before) throw new Error('set BENCH_BEFORE to the dist folder of the build to compare with');
  return withOpen(async (keep) => {
    const now = await startBuild(keep);
    const earlier = await startBuild(keep, before);
    const bare = await keep(bareLike(now, ['POST', '/workers/heartbeat', heartbeatOf('w')]));
    const poll = async (build, service) => {
      const options = { paths: await pollPaths(service) };
      return loadSubject(labelOf('poll', build), service, {
        scenario: 'read',
        clients: 64,
        options,
        seconds,
      });
    };
    const pairs = LOADS.flatMap(({ name, load }) => [
      meteredSubject(labelOf(name, 'before'), earlier, { ...load, seconds }),
      meteredSubject(labelOf(name, 'now'), now, { ...load, seconds }),
    ]);
    const idle = loadSubject(BARE, bare, { scenario: 'heartbeat', clients: 64, seconds });
    return inTurn([...pairs, await poll('before', earlier), await poll('now', now), idle], ROUNDS);
  });
}

/** The goals that these rows tell of. */
export function goals(rows) {
  const find = (label) => rows.find((row) => row.label === label);
  return [
    ...LOADS.filter(({ atLeast }) => atLeast !== undefined).map(({ name, atLeast }) =>
      goalLine(
        `${name}, a second, to the earlier build`,
        ratio(find(labelOf(name, 'now')), find(labelOf(name, 'before'))),
        { atLeast },
      ),
    ),
    goalLine(
      'heartbeats a second to a bare node:http server',
      ratio(find(labelOf('heartbeat', 'now')), find(BARE)),
      {
        atLeast: 0.25,
      },
    ),
  ];
}

/** A service of the build, with a PostgreSQL whose log is read. @param dist its folder; undefined: that of the build under test */
async function startBuild(keep, dist) {
  const cluster = await keep(startCluster());
  const service = await keep(startService({ DATABASE_URL: cluster.url }, { dist }));
  return { ...service, meter: await keep(openWalMeter(cluster.url)) };
}

function meteredSubject(label, service, load) {
  return {
    label,
    warmUp: () => warmUp(service.url, load),
    round: () => service.meter.around(() => driveCounting(service, load)),
  };
}

async function pollPaths({ url }) {
  return (await createRunsToRead(url)).map((id) => `/runs/${id}/events?after=9`);
}

function labelOf(name, build) {
  return `${name}, ${build}`;
}
