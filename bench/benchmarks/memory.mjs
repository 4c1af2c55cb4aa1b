import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { goalLine, rowOf } from '../lib/pages/figures.mjs';
import { stoppedAtTheEnd } from '../lib/servers/leftovers.mjs';
import { driveCounting } from '../lib/load/load.mjs';
import { ROOT } from '../lib/root.mjs';
import { withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';

/** Requests between the two measurements that the goals compare. Does not depend on the length of a round. */
const REQUESTS = Number(process.env.BENCH_REQUESTS ?? 1_000_000);
/** Requests before the first measurement: hot code is compiled and caches are filled. */
const WARM_UP_REQUESTS = REQUESTS / 10;
const CLIENTS = 64;
/** Requests of a lifecycle: create, claim, two events. */
const PER_LIFECYCLE = 4;
/** Seconds of one kind of request before the other kind. */
const SPELL_S = 5;
/** Pause before each measurement, in milliseconds: longer than the intervals of the service's frequent jobs. */
const PAUSE_MS = 10_000;
const STREAMS = 5_000;
const WORKERS = 10_000;

const LABELS = {
  idle: 'started, no request yet',
  start: 'after the warm-up',
  half: 'after half of the requests',
  after: 'after the requests',
  streams: 'with 5,000 open streams',
  workers: 'with 10,000 workers',
};

export const title = 'Memory of the service';
export const about =
  'Memory of the one server process, without PostgreSQL, always after a forced garbage collection. The warm-up is a tenth ' +
  'of the requests. Requests come from 64 clients: spells of lifecycles on one topic and of reads of runs. Then 5,000 ' +
  'open streams of 50 topics, and then 10,000 workers that have sent a heartbeat. Each figure is one measurement.';
export const figures = {
  mb: { title: 'resident', unit: 'MB' },
  heapMb: { title: 'live JavaScript heap', unit: 'MB' },
  externalMb: { title: 'buffers and other external memory', unit: 'MB' },
  requests: { title: 'requests so far', unit: '' },
};

/** @param rows as measured */
export function goals(rows) {
  const of = (label, name) => rowOf(rows, label).figures[name].median;
  const times = (name) => of(LABELS.after, name) / of(LABELS.start, name);
  const count = of(LABELS.after, 'requests') - of(LABELS.start, 'requests');
  const requests =
    count >= 1_000_000 ? 'a million requests' : `${count.toLocaleString('en-US')} requests (not a million)`;
  return [
    goalLine(`live heap after ${requests}, of that at the start`, times('heapMb'), { atMost: 1.1 }),
    goalLine(`resident size after ${requests}, of that at the start`, times('mb'), { atMost: 1.1 }),
  ];
}

/** One row for each moment. */
export function measure() {
  return withOpen(async (keep) => {
    const folder = await mkdtemp(join(tmpdir(), 'longshore-bench-memory-'));
    await keep({ stop: stoppedAtTheEnd(() => rm(folder, { recursive: true, force: true })) });
    const file = join(folder, 'memory.json');
    const preload = pathToFileURL(join(ROOT, 'bench/lib/servers/collect-garbage.mjs')).href;
    const service = await keep(
      startService(
        {
          SERVICE_WORKERS: '1',
          SERVICE_WORKER_TIMEOUT: '3600',
          SERVICE_MAX_WORKERS: String(WORKERS + CLIENTS),
          BENCH_MEMORY_FILE: file,
          ...(process.env.BENCH_HEAP_SNAPSHOTS && { BENCH_HEAP_SNAPSHOTS: process.env.BENCH_HEAP_SNAPSHOTS }),
        },
        { nodeOptions: ['--expose-gc', '--import', preload] },
      ),
    );
    const rows = [];
    let requests = 0;
    const add = async (label) => {
      await sleep(PAUSE_MS);
      const memory = await readMemory(service.pid, file);
      rows.push({ label, rounds: [{ ...memory, requests }] });
      // Millions of requests take minutes.
      process.stderr.write(`${label}: ${requests} requests, ${JSON.stringify(memory)}\n`);
    };
    const load = async (wanted) => {
      while (requests < wanted) {
        const runId = await createRun(service.url);
        for (const [scenario, each] of [
          ['lifecycle', PER_LIFECYCLE],
          ['read', 1],
        ]) {
          const options = { topic: 'hot', runId };
          const { units } = await driveCounting(service, {
            scenario,
            clients: CLIENTS,
            seconds: SPELL_S,
            options,
          });
          requests += units * each;
        }
      }
    };
    await add(LABELS.idle);
    await load(WARM_UP_REQUESTS);
    await add(LABELS.start);
    const start = requests;
    await load(start + REQUESTS / 2);
    await add(LABELS.half);
    await load(start + REQUESTS);
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

/** Collects the garbage of the service's process and reads what is left. */
async function readMemory(pid, file) {
  await rm(file, { force: true });
  process.kill(pid, 'SIGUSR2');
  for (;;) {
    const text = await readFile(file, 'utf8').catch(() => null);
    if (text !== null) {
      const { rss, heapUsed, external } = JSON.parse(text);
      return { mb: rss / 2 ** 20, heapMb: heapUsed / 2 ** 20, externalMb: external / 2 ** 20 };
    }
    await sleep(50);
  }
}

/** Has a process of its own open so many of them; answers how to end them. */
async function crowd(kind, url, count) {
  const child = fork(join(ROOT, 'bench/lib/load/crowd.mjs'));
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
  return end;
}
