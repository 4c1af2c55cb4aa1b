// What plain SQL does on the service's own tables with nothing around it: the limit of the service. Started with the
// URL of a fresh, migrated database.
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { answerOrders, findBest, loops } from './answer.mjs';
import { APPEND, CLAIM, COMPLETE, CREATE, START } from './raw-statements.mjs';

const JSON_500 = JSON.stringify({ filler: 'x'.repeat(480) });
const OUTPUTS = JSON.stringify({ outputs: { filler: 'x'.repeat(480) } });
const NOTE = JSON.stringify({ filler: 'x'.repeat(52) });
const MOST_CONNECTIONS = 64;

const pool = new pg.Pool({ connectionString: process.argv[2], max: MOST_CONNECTIONS, idleTimeoutMillis: 0 });
pool.on('error', (error) => process.stderr.write(`raw SQL: ${error.message}\n`));

/** One statement, prepared, is one round trip and one commit. */
const run = (name, text, values) => pool.query({ name, text, values });

/** An array of so many times the same text, as one literal: the driver would escape each element anew. */
const repeated = (text, count) => `{${Array.from({ length: count }, () => JSON.stringify(text)).join(',')}}`;

/** A group through all four steps. */
async function lifecycle(n, size) {
  const ids = Array.from({ length: size }, () => randomUUID());
  const attempts = Array.from({ length: size }, () => randomUUID());
  await run('create', CREATE, [ids, attempts, repeated(JSON_500, size)]);
  const claimed = await run('claim', CLAIM, [size, `w${n}`]);
  const held = claimed.rows.map(({ id }) => id);
  if (held.length === 0) return 0;
  const payload = JSON.stringify({ worker_id: `w${n}` });
  await run('start', START, [held, `w${n}`, repeated(payload, held.length)]);
  await run('complete', COMPLETE, [held, repeated(JSON_500, held.length), repeated(OUTPUTS, held.length)]);
  return held.length;
}

const runsOfLane = new Map();

/** An event on each of the runs of a lane of its own; with `shared` all lanes have the same ones. */
async function append(n, size, shared) {
  const lane = shared ? 'shared' : n;
  if (!runsOfLane.has(`${lane} ${size}`)) runsOfLane.set(`${lane} ${size}`, newRuns(size));
  const ids = await runsOfLane.get(`${lane} ${size}`);
  await run('append', APPEND, [ids, repeated('NOTE', size), repeated('"n"', size), repeated(NOTE, size)]);
  return size;
}

async function newRuns(size) {
  const ids = Array.from({ length: size }, () => randomUUID()).toSorted();
  await run('create', CREATE, [ids, ids, repeated(JSON_500, size)]);
  return ids;
}

const steps = { lifecycle, append };
const measure = ({ kind, size, lanes, shared = false, seconds }) =>
  loops(lanes, seconds, (n) => steps[kind](n, size, shared));

answerOrders(
  {
    tune: ({ seconds, candidates }) => findBest(candidates, (settings) => measure({ ...settings, seconds })),
    round: measure,
  },
  () => pool.end(),
);
