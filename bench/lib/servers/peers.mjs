import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { startCluster } from './cluster.mjs';
import { peerNode, startPeer } from './peer.mjs';
import { ROOT } from '../root.mjs';

/** Seconds that one candidate of a tuning is tried. */
const TRY_S = 2;

const batching = { completeJobBatchDelay: 0, failJobBatchDelay: 0, maxPoolSize: 25 };

/** pg-boss with as many loops as the clients that it is compared with. */
export const PG_BOSS_16 = 'pg-boss, job by job, 16 loops';

/** Each peer's ways to work, and the settings that are tried for each before the best of them is measured. */
const WAYS = [
  {
    label: 'pg-boss, job by job',
    kind: 'single',
    program: 'pg-boss.mjs',
    order: { kind: 'one' },
    candidates: [8, 16, 32, 64].map((count) => ({ count })),
    shown: ({ count }) => `${count} loops`,
  },
  {
    label: PG_BOSS_16,
    kind: 'single',
    program: 'pg-boss.mjs',
    order: { kind: 'one' },
    candidates: [{ count: 16 }],
    shown: () => 'for the comparison with 16 clients',
  },
  {
    label: 'pg-boss, batches of 1,000',
    kind: 'batched',
    program: 'pg-boss.mjs',
    order: { kind: 'batch' },
    candidates: [1, 2, 4].map((count) => ({ count })),
    shown: ({ count }) => `${count} loops`,
  },
  {
    label: 'graphile-worker, job by job',
    kind: 'single',
    program: 'graphile-worker.mjs',
    order: {},
    candidates: [8, 16, 32].map((concurrentJobs) => ({
      size: 1,
      adders: 16,
      backlog: 4 * concurrentJobs,
      worker: { concurrentJobs, maxPoolSize: concurrentJobs + 2 },
    })),
    shown: ({ worker }) => `concurrency ${worker.concurrentJobs}`,
  },
  {
    label: 'graphile-worker, batched',
    kind: 'batched',
    program: 'graphile-worker.mjs',
    order: {},
    candidates: [
      [24, 500],
      [100, 500],
      [500, 1000],
    ].map(([concurrentJobs, size]) => ({
      size: 1000,
      adders: 2,
      backlog: 8000,
      worker: { ...batching, concurrentJobs, localQueue: { size } },
    })),
    shown: ({ worker }) => `concurrency ${worker.concurrentJobs}, local queue of ${worker.localQueue.size}`,
  },
];

/**
 * pg-boss and graphile-worker as subjects of `inTurn`, each on a fresh PostgreSQL and at the best of a few settings;
 * `kind` is `single` or `batched`.
 * @param keep of `withOpen`
 * @param openMeter opens what measures a round beside, as `openWalMeter`
 */
export async function peerSubjects(keep, seconds, openMeter = null) {
  const execPath = peerNode();
  const peers = new Map();
  const meters = new Map();
  for (const program of new Set(WAYS.map((way) => way.program))) {
    const { url } = await keep(startCluster());
    peers.set(program, await keep(startPeer(program, { url, execPath })));
    if (openMeter) meters.set(program, await keep(openMeter(url)));
  }
  const subjects = [];
  for (const { label, kind, program, order, candidates, shown } of WAYS) {
    const peer = peers.get(program);
    const tried = candidates.map((candidate) => ({ ...order, ...candidate }));
    const options = { ...order, candidates: tried, seconds: Math.min(TRY_S, seconds) };
    const settings = await peer.ask('tune', options);
    const { around = measureFigures } = meters.get(program) ?? {};
    const round = () => around(() => peer.ask('round', { ...settings, seconds }));
    subjects.push({ label, kind, note: shown(settings), round });
  }
  return subjects;
}

/** The figures of a round, without how many units it had. */
async function measureFigures(drive) {
  const { perSecond } = await drive();
  return { perSecond };
}

/**
 * Plain SQL on the service's tables as subjects of `inTurn`, each at the best of a few numbers of connections.
 * @param ways `{ label, kind, size, lanes: numbers to try, shared }`
 */
export async function rawSubjects(keep, seconds, ways) {
  const { url } = await keep(startCluster({ migrated: true }));
  const raw = await keep(startPeer('raw-sql.mjs', { url }));
  const subjects = [];
  for (const { label, lanes, ...order } of ways) {
    const candidates = lanes.map((count) => ({ ...order, lanes: count }));
    const settings = await raw.ask('tune', { candidates, seconds: Math.min(TRY_S, seconds) });
    const note = `${settings.lanes} connection${settings.lanes > 1 ? 's' : ''}`;
    const round = () => measureFigures(() => raw.ask('round', { ...settings, seconds }));
    subjects.push({ label, note, round });
  }
  return subjects;
}

/** Versions of the peers and of the Node that runs them, nothing where they are not installed. */
export async function peerVersions() {
  try {
    const node = peerNode().split('/').at(-3);
    const names = { 'pg-boss': 'pg-boss', 'graphile-worker': 'graphile-worker', 'Node of the peers': node };
    const found = Object.entries(names).map(async ([shown, name]) => [shown, await readVersion(name)]);
    return Object.fromEntries(await Promise.all(found));
  } catch {
    return {};
  }
}

async function readVersion(name) {
  const manifest = await readFile(join(ROOT, 'bench/node_modules', name, 'package.json'), 'utf8');
  return JSON.parse(manifest).version;
}
