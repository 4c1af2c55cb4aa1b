import { setTimeout as sleep } from 'node:timers/promises';
import { startBare } from '../lib/servers/bare.mjs';
import { startCluster } from '../lib/servers/cluster.mjs';
import { startCountingProxy } from '../lib/servers/counting-proxy.mjs';
import { goalLine, rowOf, withFigures } from '../lib/pages/figures.mjs';
import { sender } from '../lib/load/http.mjs';
import { IdleClients } from '../lib/load/idle-clients.mjs';
import { postgresCpuSeconds, postmasterAt } from '../lib/servers/postgres-cpu.mjs';
import { ROUNDS, withOpen } from '../lib/rounds.mjs';
import { heartbeatOf } from '../lib/load/scenarios.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';

const COUNTS = { workers: 2_000, polls: 500, streams: 500 };
const HEARTBEAT_MS = 10_000;

export const title = 'Nothing to do';
export const about =
  'One process with nothing pending and nothing in execution. 2,000 workers claim with wait=20 and a new Idempotency-Key ' +
  'each time, and claim again as soon as they are answered; 500 feed readers do the same with wait=30, and 500 have a ' +
  'stream open: 117 requests a second. In the next one each worker also sends a heartbeat every ' +
  '10 s, as the worker program does: 317 requests a second. Statements are what PostgreSQL gets, begins and commits ' +
  'included. Before the rounds the clients repeat their requests every 3 s for a while, so that the code is compiled as ' +
  'in a process that has run for an hour. A stream gets a comment every 15 s, which is no request. The ' +
  'last row is a bare node:http server that answers as many requests a second at once.';
export const figures = {
  requestsPerSecond: { title: 'requests', unit: '/s' },
  statementsPerMinute: { title: 'statements', unit: '/min' },
  serviceCpuPercent: { title: 'CPU of the service', unit: '%' },
  postgresCpuPercent: { title: 'CPU of PostgreSQL', unit: '%' },
};

/** Connections to the bare server. */
const SPREAD_CONNECTIONS = 64;

/** What a start reads once is over after this time, in seconds. */
const START_S = 60;

/** How long the clients repeat their requests every 3 s, in seconds. */
const WARM_UP_S = 30;

const LABELS = {
  none: 'no clients',
  returning: 'claims and feed readers return and repeat',
  heartbeats: 'the same with heartbeats',
  bare: 'bare node:http, as many requests',
};

/** @param rows as measured */
export function goals(rows) {
  const of = (name, label = LABELS.returning) => rowOf(rows, label).figures[name].median;
  const clients = '2,000 waiting claims and 1,000 feed readers';
  return [
    goalLine('statements, no clients', of('statementsPerMinute', LABELS.none), { atMost: 20 }, '/min'),
    goalLine(`statements, ${clients}`, of('statementsPerMinute'), { atMost: 20 }, '/min'),
    goalLine(`CPU of the service, ${clients}`, of('serviceCpuPercent'), { atMost: 2 }, ' %'),
    goalLine(`CPU of PostgreSQL, ${clients}`, of('postgresCpuPercent'), { atMost: 1 }, ' %'),
  ];
}

/** One row without clients, one with clients, one with clients that also send heartbeats. */
export function measure({ seconds }) {
  return withOpen(async (keep) => {
    const cluster = await keep(startCluster());
    const proxy = await keep(startCountingProxy(cluster.url));
    const service = await keep(startService({ DATABASE_URL: proxy.url }));
    const postgresPid = await postmasterAt(cluster.url);
    const clients = new IdleClients(service.url, KEY, COUNTS);
    const sample = async () => ({
      at: performance.now(),
      requests: clients.requests,
      statements: proxy.statements(),
      service: await service.cpuSeconds(),
      postgres: await postgresCpuSeconds(postgresPid),
    });
    const rows = [];
    const watch = async (label) => {
      const rounds = [];
      proxy.texts.clear();
      const startedAt = performance.now();
      for (let round = 0; round < ROUNDS; round += 1) {
        const before = await sample();
        await sleep(seconds * 5_000);
        const after = await sample();
        const rate = (name) => (after[name] - before[name]) / ((after.at - before.at) / 1000);
        rounds.push({
          requestsPerSecond: rate('requests'),
          statementsPerMinute: rate('statements') * 60,
          serviceCpuPercent: rate('service') * 100,
          postgresCpuPercent: rate('postgres') * 100,
        });
      }
      const minutes = (performance.now() - startedAt) / 60_000;
      rows.push({ label, rounds, statements: perMinute(proxy.texts, minutes) });
    };
    await sleep(START_S * 1000);
    await watch(LABELS.none);
    await clients.open();
    const endWarmUp = clients.heartbeat(HEARTBEAT_MS / 4);
    await sleep(WARM_UP_S * 1000);
    endWarmUp();
    await clients.settle();
    await watch(LABELS.returning);
    clients.heartbeat(HEARTBEAT_MS);
    await watch(LABELS.heartbeats);
    clients.close();
    const { requestsPerSecond } = withFigures(rows.at(-1)).figures;
    rows.push({ label: LABELS.bare, rounds: await measureBare(seconds, requestsPerSecond.median) });
    return rows;
  });
}

/**
 * The CPU of a bare node:http server that answers as many requests a second at once: what a process that is woken for each
 * request costs on this machine.
 */
function measureBare(seconds, perSecond) {
  return withOpen(async (keep) => {
    const answer = { status: 200, header: () => 'application/json', text: () => '{"ops":[]}' };
    const bare = await keep(startBare(answer));
    const { send, close } = sender(bare.url, KEY, SPREAD_CONNECTIONS);
    const rounds = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const cpuBefore = await bare.cpuSeconds();
      const startedAt = performance.now();
      const elapsed = () => (performance.now() - startedAt) / 1000;
      for (let sent = 0; elapsed() < seconds * 5; await sleep(1)) {
        for (; sent < elapsed() * perSecond; sent += 1) void send('POST', '/', heartbeatOf(`worker-${sent}`));
      }
      const spent = (await bare.cpuSeconds()) - cpuBefore;
      rounds.push({ requestsPerSecond: perSecond, serviceCpuPercent: (spent / elapsed()) * 100 });
    }
    close();
    return rounds;
  });
}

/** How often each statement came in a minute, by its first words. */
function perMinute(texts, minutes) {
  const entries = [...texts].map(([text, count]) => [
    text.replaceAll(/\s+/g, ' ').trim().slice(0, 80),
    Math.round((count / minutes) * 10) / 10,
  ]);
  return Object.fromEntries(entries.toSorted(([, a], [, b]) => b - a));
}
