import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { startCluster } from '../lib/cluster.mjs';
import { startCountingProxy } from '../lib/counting-proxy.mjs';
import { openStreams } from '../lib/event-streams.mjs';
import { goalLine, rowOf } from '../lib/figures.mjs';
import { bodyOf, sender } from '../lib/http.mjs';
import { postgresCpuSeconds } from '../lib/postgres-cpu.mjs';
import { ROUNDS, withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/service.mjs';

export const title = 'Nothing to do';
export const about =
  'One process with nothing pending and nothing in execution. 1,000 workers wait by claim?wait=20, each time with a new ' +
  'Idempotency-Key; of 1,000 feed readers half poll with wait=30 and half have a stream open. Queries are what PostgreSQL ' +
  'gets, begins and commits included. Who only waits sends nothing while it is measured; who comes back asks again as ' +
  'soon as it is answered (67 requests a second); each worker then also heartbeats every 15 s (67 more).';
export const figures = {
  queriesPerMinute: { title: 'queries', unit: '/min' },
  serviceCpuPercent: { title: 'CPU of the service', unit: '%' },
  postgresCpuPercent: { title: 'CPU of PostgreSQL', unit: '%' },
};

const WORKERS = 1_000;
const POLLS = 500;
const STREAMS = 500;
const HEARTBEAT_MS = 15_000;
/** Longest time in which nobody who waits is answered, in seconds. */
const STILL_S = 18;
/** So long it takes until a process believes that no other one serves claims, in seconds, and some. */
const SETTLE_S = 26;

const LABELS = {
  none: 'nobody is there',
  waiting: '2,000 wait',
  returning: '2,000 wait and come back',
  beating: '2,000 come back, heartbeats',
};

/** @param rows as measured */
export function goals(rows) {
  const of = (label, name) => rowOf(rows, label).figures[name].median;
  return [
    goalLine('queries, 2,000 waiting', of(LABELS.returning, 'queriesPerMinute'), { atMost: 20 }, '/min'),
    goalLine(
      'CPU of the service, 2,000 waiting',
      of(LABELS.waiting, 'serviceCpuPercent'),
      { atMost: 1 },
      ' %',
    ),
    goalLine(
      'CPU of PostgreSQL, 2,000 waiting',
      of(LABELS.returning, 'postgresCpuPercent'),
      { atMost: 1 },
      ' %',
    ),
  ];
}

/** One row for each thing that 2,000 clients may do while nothing happens. */
export function measure({ seconds }) {
  return withOpen(async (keep) => {
    const cluster = await keep(startCluster());
    const proxy = await keep(startCountingProxy(cluster.url));
    const service = await keep(startService({ DATABASE_URL: proxy.url }));
    const postgresPid = await pidOf(cluster.url);
    const watch = async (forS) => {
      const before = await sample();
      await sleep(forS * 1000);
      const after = await sample();
      const elapsed = (after.at - before.at) / 1000;
      return {
        queriesPerMinute: ((after.statements - before.statements) / elapsed) * 60,
        serviceCpuPercent: ((after.service - before.service) / elapsed) * 100,
        postgresCpuPercent: ((after.postgres - before.postgres) / elapsed) * 100,
      };
    };
    const sample = async () => ({
      at: performance.now(),
      statements: proxy.statements(),
      service: await service.cpuSeconds(),
      postgres: await postgresCpuSeconds(postgresPid),
    });
    const rows = Object.values(LABELS).map((label) => ({ label, rounds: [] }));
    const [none, waiting, returning, beating] = rows;
    const longS = seconds * 5;
    await sleep(2_000);
    for (let round = 0; round < ROUNDS; round += 1) none.rounds.push(await watch(longS));
    const crowd = new Crowd(service.url);
    await crowd.open();
    await sleep(SETTLE_S * 1000);
    for (let round = 0; round < ROUNDS; round += 1) returning.rounds.push(await watch(longS));
    const stopBeating = crowd.beat();
    for (let round = 0; round < ROUNDS; round += 1) beating.rounds.push(await watch(longS));
    stopBeating();
    for (let round = 0; round < ROUNDS; round += 1) {
      await crowd.gather();
      waiting.rounds.push(await watch(Math.min(longS, STILL_S)));
    }
    crowd.close();
    if (process.env.BENCH_STATEMENTS) process.stderr.write(`${JSON.stringify([...proxy.texts], null, 2)}\n`);
    return rows;
  });
}

/** The workers and readers. */
class Crowd {
  #connection;
  #url;
  #streams;
  #isOver = false;
  /** Resolves when those who are answered may ask again. */
  #gate = Promise.resolve();
  #waiting = 0;

  constructor(url) {
    this.#url = url;
    this.#connection = sender(url, KEY, WORKERS + POLLS + 64);
  }

  async open() {
    await Promise.all(Array.from({ length: WORKERS }, (_, n) => this.#heartbeat(n)));
    this.#streams = await openStreams(
      this.#url,
      KEY,
      Array.from({ length: STREAMS }, (_, n) => `topic-${n % 50}`),
    );
    for (let n = 0; n < WORKERS; n += 1) void this.#again(() => this.#claim(n), n * 20);
    for (let n = 0; n < POLLS; n += 1) void this.#again(() => this.#poll(n), n * 60);
  }

  /** Has everybody begin to wait at the same time, once all have been answered. */
  async gather() {
    let open;
    this.#gate = new Promise((resolve) => {
      open = resolve;
    });
    while (this.#waiting > 0) await sleep(100);
    await Promise.all(Array.from({ length: WORKERS }, (_, n) => this.#heartbeat(n)));
    open();
    await sleep(1_500);
  }

  /** Has every worker heartbeat, spread over time; answers how to end that. */
  beat() {
    let n = 0;
    const timer = setInterval(() => {
      void this.#heartbeat(n % WORKERS).catch(() => undefined);
      n += 1;
    }, HEARTBEAT_MS / WORKERS);
    return () => clearInterval(timer);
  }

  close() {
    this.#isOver = true;
    this.#streams.close();
    this.#connection.close();
  }

  async #again(ask, afterMs) {
    await sleep(afterMs);
    while (!this.#isOver) {
      await this.#gate;
      this.#waiting += 1;
      try {
        await ask();
      } catch (error) {
        if (!this.#isOver) throw error;
      } finally {
        this.#waiting -= 1;
      }
    }
  }

  async #claim(n) {
    const answer = await this.#connection.send('POST', `/workers/w${n}/claim?wait=20`, undefined, {
      'Idempotency-Key': randomUUID(),
    });
    if (bodyOf(answer).ops.length > 0) throw new Error('a claim got a run although there is none');
  }

  async #poll(n) {
    bodyOf(await this.#connection.send('GET', `/feed?topic=topic-${n % 50}&wait=30`));
  }

  async #heartbeat(n) {
    const body = {
      worker_id: `w${n}`,
      resources: { cpu_cores: 8, ram_mb: 16_384, gpus: [] },
      tags: [],
      running_ops: [],
    };
    bodyOf(await this.#connection.send('POST', '/workers/heartbeat', body));
  }
}

/** The first process of a PostgreSQL on this machine. */
async function pidOf(url) {
  const { Client } = createRequire(import.meta.url)('pg');
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query("select current_setting('data_directory') as folder");
    const [pid] = (await readFile(`${rows[0].folder}/postmaster.pid`, 'utf8')).split('\n');
    return Number(pid);
  } finally {
    await client.end();
  }
}
