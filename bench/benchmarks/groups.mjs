import { randomUUID } from 'node:crypto';
import { goalLine, ratio, rowOf } from '../lib/pages/figures.mjs';
import { bodyOf, sender } from '../lib/load/http.mjs';
import { drive, warmUp } from '../lib/load/load.mjs';
import { quantile } from '../lib/pages/stats.mjs';
import { ROUNDS } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';

export const title = 'Groups';
export const about =
  'On an idle service with one waiting worker: from sending a create, and from sending the end of its parent, to the answer of the claim that gets the run; and how long POST /runs and POST /groups ' +
  'of an array of 10,000 take. Then 16 workers claim other runs, 100 a second, in turns alone, and while a worker of its own executes, 50 at a time, single runs or an array of 10,000.';
export const figures = {
  p50: { title: 'p50', unit: 'ms' },
  p99: { title: 'p99', unit: 'ms' },
  timesP99: { title: 'p99, times alone', unit: '' },
};

const CREATED = 'create to claim';
const RELEASED = "end of the parent to the child's claim";
const RUN = 'POST /runs';
const ARRAY = 'POST /groups, an array of 10,000';
const ALONE = 'claims alone';
const PLAIN = 'claims beside single runs';
const BESIDE = 'claims beside an array of 10,000';
const TRIES = 100;
const SIZE = 10_000;
const AT_ONCE = 50;

export async function measure({ seconds }) {
  const rows = await latencies();
  return [...rows, ...(await besideAnArray(seconds))];
}

export function goals(rows) {
  const of = (label) => rowOf(rows, label);
  return [
    goalLine(
      "end of a parent to its child's claim, p50, to create to claim",
      ratio(of(RELEASED), of(CREATED), 'p50'),
      { atMost: 2 },
    ),
    goalLine('POST of an array, p50, to POST /runs', ratio(of(ARRAY), of(RUN), 'p50'), { atMost: 20 }),
    goalLine(
      'claim p99 of other runs beside an array, against without',
      ratio(of(BESIDE), of(ALONE), 'p99'),
      { atMost: 1.2 },
    ),
    goalLine(
      'claim p99 of other runs beside an array, against beside single runs',
      ratio(of(BESIDE), of(PLAIN), 'p99'),
      { atMost: 1.2 },
    ),
  ];
}

async function latencies() {
  const service = await startService();
  const { send, close } = sender(service.url, KEY, 8);
  const claimedAt = new Map();
  const over = new AbortController();
  const post = async (path, body) => bodyOf(await send('POST', path, body));
  const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
  const work = async () => {
    await post('/workers/heartbeat', { worker_id: 'w', resources, tags: [] });
    while (!over.signal.aborted) {
      const answer = await send('POST', '/workers/w/claim?wait=10', undefined, {
        'Idempotency-Key': randomUUID(),
      });
      for (const { id } of bodyOf(answer).ops) claimedAt.set(id, performance.now());
    }
  };
  const working = work().catch(() => undefined);
  const rounds = new Map([CREATED, RELEASED, RUN, ARRAY].map((label) => [label, []]));
  try {
    for (let round = 0; round < ROUNDS; round += 1) {
      const times = new Map([...rounds.keys()].map((label) => [label, []]));
      for (let n = 0; n < TRIES; n += 1) {
        await pause(10);
        const sent = performance.now();
        const { id } = await post('/runs', { image: 'i' });
        times.get(RUN).push(performance.now() - sent);
        times.get(CREATED).push((await claimed(claimedAt, id)) - sent);
        const child = await post('/runs', { image: 'i', depends_on: [{ run: id }] });
        await post(`/runs/${id}/events`, { type: 'STARTED', msg: '', payload: { worker_id: 'w' } });
        await pause(10);
        const ended = performance.now();
        await post(`/runs/${id}/events`, { type: 'COMPLETED', msg: '' });
        times.get(RELEASED).push((await claimed(claimedAt, child.id)) - ended);
      }
      for (let n = 0; n < TRIES / 10; n += 1) {
        const sent = performance.now();
        const { id } = await post('/groups', {
          array: { size: SIZE, run: { image: 'i', selector: ['none'] } },
        });
        times.get(ARRAY).push(performance.now() - sent);
        await post(`/groups/${id}/cancel`);
      }
      for (const [label, all] of times)
        rounds.get(label).push({ p50: quantile(all, 0.5), p99: quantile(all, 0.99) });
    }
  } finally {
    over.abort();
    close();
    await working;
    await service.stop();
  }
  return [...rounds].map(([label, of]) => ({ label, rounds: of }));
}

async function besideAnArray(seconds) {
  const service = await startService();
  const { send, close } = sender(service.url, KEY, AT_ONCE);
  const load = { scenario: 'claim', clients: 16, seconds, rate: 100 };
  const [alone, plain, beside] = [[], [], []];
  const withWorker = async (tag) => {
    const over = new AbortController();
    const executing = executeRuns(send, tag, over.signal);
    const measured = await drive(service.url, load);
    over.abort();
    await executing;
    return measured;
  };
  try {
    await warmUp(service.url, load);
    for (let round = 0; round < ROUNDS; round += 1) {
      alone.push(await drive(service.url, load));
      // Half a second is the shortest run.
      const singles = Array.from({ length: AT_ONCE }, () => ({ image: 'i', selector: ['single'] }));
      for (let n = 0; n < 2 * seconds + 4; n += 1)
        bodyOf(await send('POST', '/runs/batch', { runs: singles }));
      plain.push(await withWorker('single'));
      const array = { size: SIZE, run: { image: 'i', selector: ['array'] } };
      const { id } = bodyOf(await send('POST', '/groups', { array, max_parallel: AT_ONCE }));
      beside.push(await withWorker('array'));
      bodyOf(await send('POST', `/groups/${id}/cancel`));
      await send('GET', `/groups/${id}?wait=60`);
    }
  } finally {
    close();
    await service.stop();
  }
  const timesAlone = (round, n) => ({ ...round, timesP99: round.p99 / alone[n].p99 });
  return [
    { label: ALONE, rounds: alone },
    { label: PLAIN, rounds: plain.map(timesAlone) },
    { label: BESIDE, rounds: beside.map(timesAlone) },
  ];
}

/** A worker like ours for runs with the tag: as many at a time as may be, of half a second to one and a half each; it reports each end, and asks for runs as soon as it has room. */
async function executeRuns(send, tag, over) {
  const resources = { cpu_cores: AT_ONCE, ram_mb: AT_ONCE, gpus: [] };
  bodyOf(await send('POST', '/workers/heartbeat', { worker_id: tag, resources, tags: [tag] }));
  const executing = new Set();
  const execute = async ({ id, attempt }) => {
    await pause(500 + 1_000 * Math.random());
    const events = [{ run_id: id, attempt, type: 'COMPLETED', msg: '' }];
    bodyOf(await send('POST', `/workers/${tag}/events`, { events }));
  };
  while (!over.aborted) {
    if (executing.size === AT_ONCE) await Promise.race(executing);
    const path = `/workers/${tag}/claim?max=${AT_ONCE - executing.size}&wait=1`;
    const answer = await send('POST', path, undefined, { 'Idempotency-Key': randomUUID() });
    for (const op of bodyOf(answer).ops) {
      const run = execute(op).finally(() => executing.delete(run));
      executing.add(run);
    }
  }
  await Promise.all(executing);
}

async function claimed(claimedAt, id) {
  while (!claimedAt.has(id)) await pause(1);
  return claimedAt.get(id);
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
