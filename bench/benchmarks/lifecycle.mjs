import { better, goalLine, ratio, rowOf } from '../lib/pages/figures.mjs';
import { sender } from '../lib/load/http.mjs';
import { drive, warmUp } from '../lib/load/load.mjs';
import { peerSubjects, PG_BOSS_16, rawSubjects } from '../lib/servers/peers.mjs';
import { inTurn, ROUNDS, withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';
import { quantile } from '../lib/pages/stats.mjs';

export const title = 'Whole lifecycles';
export const about =
  'Runs a second from create to COMPLETED. Over HTTP, one server process: create, claim, STARTED and COMPLETED, one ' +
  'request each, 500 B of inputs and of outputs; in bulk, up to 100 in each of the four requests. p50 and p99 are of ' +
  'all four requests. Beside it, in the same minutes, on a PostgreSQL each: the same jobs through pg-boss (send, fetch ' +
  'and complete side by side; insert, fetch and complete of 1,000) and graphile-worker (addJob and its runner; addJobs of ' +
  '1,000 with the local queue and batched completion) in process, without HTTP, at the best of a few settings; neither ' +
  'keeps attempts, a timeline or a feed, and graphile-worker keeps no outputs. Raw SQL is the limit: the same rows in ' +
  'groups of 100, one statement and one commit for each of the four steps. Open loop: runs begin at a fixed part of ' +
  'the rate that 64 clients reached, whether earlier ones are done or not.';

export const needsPeers = true;

export const plots = [
  {
    title: 'Runs a second, one request or call a step',
    figure: 'perSecond',
    only: ({ kind }) => kind === 'single',
  },
  { title: 'Runs a second, many at a time', figure: 'perSecond', only: ({ kind }) => kind === 'batched' },
  { title: 'Open loop: p99 of a whole lifecycle', figure: 'p99', only: ({ kind }) => kind === 'open' },
];

const TOPICS = [null, 'hot'];
const PARTS = [0.5, 0.8, 0.95];
const RAW = 'raw SQL, groups of 100';

/** One row for every number of clients with and without a topic that all runs share, the peers, and the limit. */
export async function measure({ seconds }) {
  return withOpen(async (keep) => {
    const service = await keep(startService());
    const subject = (label, load) => ({
      label,
      kind: load.scenario === 'lifecycle' ? 'single' : 'batched',
      warmUp: () => warmUp(service.url, { ...load, seconds }),
      round: () => drive(service.url, { ...load, seconds }),
    });
    const single = TOPICS.flatMap((topic) =>
      [1, 16, 64, 256].map((clients) =>
        subject(labelOf(clients, topic), { scenario: 'lifecycle', clients, options: { topic } }),
      ),
    );
    const bulk = (await takesBulk(service.url))
      ? TOPICS.flatMap((topic) =>
          [1, 4, 16].map((clients) =>
            subject(bulkLabelOf(clients, topic), { scenario: 'bulkLifecycle', clients, options: { topic } }),
          ),
        )
      : [];
    const peers = await peerSubjects(keep, seconds);
    const raw = await rawSubjects(keep, seconds, [
      { label: RAW, kind: 'lifecycle', size: 100, lanes: [1, 2, 4] },
    ]);
    const rows = await inTurn([
      ...single,
      ...bulk,
      ...peers,
      ...raw.map((limit) => ({ ...limit, kind: 'batched' })),
    ]);
    return [...rows, ...(await openLoop(service.url, rows, seconds))];
  });
}

/** The goals that these rows tell of. */
export function goals(rows) {
  const find = (label) => rows.find((row) => row.label === label);
  const oneByOne = better([find('pg-boss, job by job'), find('graphile-worker, job by job')]);
  const batched = better([find('pg-boss, batches of 1,000'), find('graphile-worker, batched')]);
  const single = find(labelOf(64, null));
  const bulk = better([1, 4, 16].map((clients) => find(bulkLabelOf(clients, null))));
  return [
    goalLine('Lifecycles over HTTP, 64 clients, to the better peer job by job', ratio(single, oneByOne), {
      atLeast: 1.3,
    }),
    goalLine(
      'Lifecycles over HTTP, 16 clients, to pg-boss with 16 loops',
      ratio(find(labelOf(16, null)), find(PG_BOSS_16)),
      { atLeast: 1 },
    ),
    goalLine('Lifecycles through bulk calls to the better peer batched', ratio(bulk, batched), {
      atLeast: 0.25,
    }),
    goalLine('Lifecycles through bulk calls to raw SQL in groups of 100', ratio(bulk, find(RAW)), {
      atLeast: 0.6,
    }),
  ];
}

function labelOf(clients, topic) {
  return `${clients} client${clients > 1 ? 's' : ''}${topic === null ? '' : ', one topic'}`;
}

function bulkLabelOf(clients, topic) {
  return `bulk, ${labelOf(clients, topic)}`;
}

async function openLoop(url, rows, seconds) {
  const rate = quantile(
    rowOf(rows, labelOf(64, null)).rounds.map(({ perSecond }) => perSecond),
    0.5,
  );
  const subjects = PARTS.map((part) => ({
    label: `open loop, ${Math.round(part * 100)} % of the rate of 64 clients`,
    kind: 'open',
    round: () => drive(url, { scenario: 'lifecycle', clients: 256, seconds, rate: part * rate }),
  }));
  return inTurn(subjects, ROUNDS);
}

async function takesBulk(url) {
  const { send, close } = sender(url, KEY, 1);
  try {
    const { status } = await send('POST', '/runs/batch', { runs: [] });
    if (status !== 404) return true;
    process.stdout.write(
      'skipped: lifecycles through bulk calls, because this service answers 404 to POST /runs/batch\n',
    );
    return false;
  } finally {
    close();
  }
}
