import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { goalLine, rowOf } from '../lib/figures.mjs';
import { stoppedAtTheEnd } from '../lib/leftovers.mjs';
import { drive } from '../lib/load.mjs';
import { ROOT } from '../lib/root.mjs';
import { withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/service.mjs';

const CLIENTS = 64;
/** Requests at the default of 8 seconds a round; in proportion with another. */
const REQUESTS = 1_000_000;
const DEFAULT_SECONDS = 8;
/** Requests before anything is compared: the engine has compiled what is hot, its heap has found its size. */
const WARM_UP = 0.1;
/** Requests of one step of a lifecycle with a topic, and of the reads that go with it. */
const PER_LIFECYCLE = 4;
/** So long one kind of request is sent at a time, in seconds. */
const SPELL_S = 5;
const PAUSE_MS = 10_000;
const STREAMS = 5_000;
const WORKERS = 10_000;

const LABELS = {
  start: 'after the warm-up and a pause',
  after: 'after the requests and a pause',
  streams: 'with 5,000 open streams',
  workers: 'with 10,000 workers',
};

export const title = 'Memory of the service';
export const about =
  'Resident size of the one server process, PostgreSQL not counted. The start is after a warm-up of a tenth of the ' +
  'requests and a pause of 10 s, in which what is free goes back; then a million requests (in proportion to the seconds ' +
  'asked for) from 64 clients: lifecycles on one topic and reads of runs, half by half, and a pause again. Then 5,000 ' +
  'open streams of 50 topics; then 10,000 workers that have sent a heartbeat. Each figure is one of one process.';
export const figures = {
  mb: { title: 'resident', unit: 'MB' },
  heapMb: { title: 'of it live JavaScript heap', unit: 'MB' },
  requests: { title: 'requests so far', unit: '' },
};

/** @param rows as measured */
export function goals(rows) {
  const of = (label) => rowOf(rows, label).figures.mb.median;
  return [
    goalLine('resident size after the requests, of that at the start', of(LABELS.after) / of(LABELS.start), {
      atMost: 1.1,
    }),
  ];
}

/** One row for each moment. */
export function measure({ seconds }) {
  return withOpen(async (keep) => {
    const service = await keep(startService({ SERVICE_WORKER_TIMEOUT: '3600' }));
    const rows = [];
    let requests = 0;
    const add = async (label) => {
      const { mb, heapMb } = await memoryOf(service);
      rows.push({ label, rounds: [{ mb, heapMb, requests }] });
    };
    const load = async (wanted) => {
      const until = requests + wanted;
      while (requests < until) {
        for (const [scenario, each] of [
          ['lifecycle', PER_LIFECYCLE],
          ['read', 1],
        ]) {
          const options = { topic: 'hot', runId: await createRun(service.url) };
          const spell = SPELL_S;
          const { perSecond } = await drive(service.url, {
            scenario,
            clients: CLIENTS,
            seconds: spell,
            options,
          });
          requests += Math.round(perSecond * spell) * each;
        }
      }
    };
    const all = (REQUESTS * seconds) / DEFAULT_SECONDS;
    await load(all * WARM_UP);
    await sleep(PAUSE_MS);
    await add(LABELS.start);
    await load(all);
    await sleep(PAUSE_MS);
    await add(LABELS.after);
    const closeStreams = await crowd('streams', service.url, STREAMS);
    await add(LABELS.streams);
    await closeStreams();
    const closeWorkers = await crowd('workers', service.url, WORKERS);
    await add(LABELS.workers);
    await closeWorkers();
    return rows;
  });
}

async function createRun(url) {
  const response = await fetch(`${url}/runs`, {
    method: 'POST',
    headers: { 'X-API-Key': KEY, 'Content-Type': 'application/json' },
    body: JSON.stringify({ image: 'i' }),
  });
  return (await response.json()).id;
}

async function memoryOf({ url, pid }) {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const [, kb] = /VmRSS:\s+(\d+) kB/.exec(status) ?? [];
  const metrics = await (await fetch(`${url}/metrics`, { headers: { 'X-API-Key': KEY } })).text();
  const [, used] = /^longshore_nodejs_heap_size_used_bytes\S* (\S+)$/m.exec(metrics) ?? [];
  return { mb: Number(kb) / 1024, heapMb: Number(used) / 2 ** 20 };
}

/** Has a process of its own open so many of them; answers how to end them. */
async function crowd(kind, url, count) {
  const child = fork(join(ROOT, 'bench/lib/crowd.mjs'));
  const gone = once(child, 'exit');
  const end = stoppedAtTheEnd(async () => {
    child.kill();
    await gone;
  });
  const ready = once(child, 'message');
  child.send({ url, key: KEY, kind, count });
  const failed = gone.then(() => {
    throw new Error(`the ${kind} could not be opened`);
  });
  failed.catch(() => undefined);
  await Promise.race([ready, failed]);
  await sleep(3_000);
  return end;
}
