import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { goalLine } from '../lib/pages/figures.mjs';
import { stoppedAtTheEnd } from '../lib/servers/leftovers.mjs';
import { drive, warmUp } from '../lib/load/load.mjs';
import { postgresCpuSeconds, postmasterAt } from '../lib/servers/postgres-cpu.mjs';
import { ROOT } from '../lib/root.mjs';
import { withOpen } from '../lib/rounds.mjs';
import { KEY } from '../lib/servers/service.mjs';
import { quantile } from '../lib/pages/stats.mjs';
import { inWords, sizesOf, startSeeded } from '../seed/seeded.mjs';

const ROUNDS = 3;
const [FINISHED, PENDING, WORKERS] = sizesOf([10_000_000, 1_000_000, 10_000]);
const TOPICS = 1_000;
const DASHBOARDS = 200;

/** Lifecycles a second, one step after the other; null: as many as 64 clients complete. */
const RATES = [0, 50, 100, 200, 400, null];

/** A rate is carried when 95 % of it are reached, nothing fails, and no p99 is above this, in milliseconds. */
const CARRIED_P99_MS = 1_000;

export const title = 'A large deployment';
export const about =
  `One process beside ${inWords(FINISHED)} finished runs with three events each and ${inWords(PENDING)} pending ones. ` +
  `${WORKERS.toLocaleString('en-US')} workers send a heartbeat every 10 s, 1,000 event streams are open on 1,000 topics, and ` +
  '200 dashboards ask for the overview or a list every 2 s. Lifecycles on those topics come on top, at rates that grow. The ' +
  'label of a rate that is not carried says what breaks first. Memory is that of the server process; disk is the database.';
export const figures = {
  heartbeatP99: { title: 'p99 of heartbeats', unit: 'ms' },
  dashboardP99: { title: 'p99 of dashboards', unit: 'ms' },
  failures: { title: 'failed', unit: '' },
  serviceCpuPercent: { title: 'CPU of the service', unit: '%' },
  postgresCpuPercent: { title: 'CPU of PostgreSQL', unit: '%' },
  memoryMb: { title: 'memory', unit: 'MB' },
  diskGb: { title: 'disk', unit: 'GB' },
};

/** One row for each rate of lifecycles. */
export function measure({ seconds }) {
  return withOpen(async (keep) => {
    const service = await keep(
      startSeeded({ finished: FINISHED, pending: PENDING, env: { SERVICE_MAX_WORKERS: '20000' } }),
    );
    const postgresPid = await postmasterAt(service.databaseUrl);
    const clients = await keep(startClients(service.url));
    const sample = async () => ({
      at: performance.now(),
      service: await service.cpuSeconds(),
      postgres: await postgresCpuSeconds(postgresPid),
    });
    const rows = [];
    for (const rate of RATES) {
      const load = { scenario: 'lifecycle', clients: 64, seconds, options: { topics: TOPICS } };
      if (rate !== null) load.rate = rate;
      if (rate !== 0) await warmUp(service.url, load);
      await clients.report();
      const rounds = [];
      for (let round = 0; round < ROUNDS; round += 1) {
        const before = await sample();
        const driven = rate === 0 ? await pause(seconds) : await drive(service.url, load);
        const after = await sample();
        const { heartbeats, dashboards } = await clients.report();
        const percent = (name) => ((after[name] - before[name]) / (after.at - before.at)) * 1e5;
        rounds.push({
          ...driven,
          heartbeatP99: quantile([...heartbeats.latencies], 0.99),
          dashboardP99: quantile([...dashboards.latencies], 0.99),
          failures: heartbeats.failures + dashboards.failures,
          serviceCpuPercent: percent('service'),
          postgresCpuPercent: percent('postgres'),
          memoryMb: await residentMb(service.pid),
          diskGb: await diskGb(service),
        });
      }
      const broken = rate === null ? null : firstBroken(rounds, rate);
      rows.push({ label: labelOf(rate, broken), rate, broken, rounds });
    }
    return rows;
  });
}

/** @param rows as measured */
export function goals(rows) {
  const carried = rows.filter(({ rate, broken }) => rate !== null && broken === null).map(({ rate }) => rate);
  return [
    goalLine(
      'lifecycles beside everything else that are carried',
      Math.max(0, ...carried),
      { atLeast: 200 },
      '/s',
    ),
  ];
}

function labelOf(rate, broken) {
  if (rate === null) return 'lifecycles of 64 clients without a pause';
  const label = rate === 0 ? 'no lifecycles' : `${rate} lifecycles a second`;
  return broken === null ? label : `${label}: ${broken}`;
}

/** What is not carried, of the median over the rounds; null: nothing. */
function firstBroken(rounds, rate) {
  const median = (name) => quantile(rounds.map((round) => round[name]).filter(Number.isFinite), 0.5);
  if (median('failures') > 0) return 'requests fail';
  if (rate > 0 && median('perSecond') < 0.95 * rate) return 'the rate is not reached';
  const late = { p99: 'lifecycles', heartbeatP99: 'heartbeats', dashboardP99: 'dashboards' };
  const [, kind] = Object.entries(late).find(([name]) => median(name) > CARRIED_P99_MS) ?? [];
  return kind === undefined ? null : `p99 of ${kind} is above 1 s`;
}

async function pause(seconds) {
  await new Promise((resolve) => {
    setTimeout(resolve, seconds * 1000);
  });
  return {};
}

async function startClients(url) {
  const child = fork(join(ROOT, 'bench/lib/load/scale-clients.mjs'), { serialization: 'advanced' });
  const gone = once(child, 'exit');
  const stop = stoppedAtTheEnd(async () => {
    if (child.connected) child.disconnect();
    await gone;
  });
  const ended = gone.then(([code, signal]) => {
    throw new Error(`the clients ended (${signal ?? code})`);
  });
  ended.catch(() => undefined);
  const answer = async () => {
    const [message] = await Promise.race([once(child, 'message'), ended]);
    return message;
  };
  child.send({ url, key: KEY, workers: WORKERS, dashboards: DASHBOARDS, streams: TOPICS });
  await answer();
  return {
    stop,
    report() {
      child.send('report');
      return answer();
    },
  };
}

async function residentMb(pid) {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  const [, kb] = /^VmRSS:\s+(\d+)/m.exec(status) ?? [];
  return Number(kb) / 1024;
}

async function diskGb(service) {
  const [{ bytes }] = await service.query('select pg_database_size(current_database()) as bytes');
  return Number(bytes) / 1e9;
}
