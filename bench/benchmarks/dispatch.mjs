import { randomUUID } from 'node:crypto';
import { goalLine, rowOf } from '../lib/pages/figures.mjs';
import { bodyOf, sender } from '../lib/load/http.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';
import { quantile } from '../lib/pages/stats.mjs';

export const title = 'Dispatch to a waiting worker';
export const about =
  'From the acknowledged create to the answer of the waiting claim that gets the run, on an idle service; negative when ' +
  'the claim is answered first, for both are in one commit. Beside it the whole time from sending the create to that ' +
  'answer. Claims carry a new Idempotency-Key each, as those of our agent.';
export const figures = {
  p50: { title: 'p50 after the acknowledgement', unit: 'ms' },
  p99: { title: 'p99 after the acknowledgement', unit: 'ms' },
  wholeP50: { title: 'p50 from sending', unit: 'ms' },
  wholeP99: { title: 'p99 from sending', unit: 'ms' },
};

const RUNS = 200;

/** Until the worker that got the last run waits again, in milliseconds. */
const APART_MS = 20;

/** @param rows as measured */
export function goals(rows) {
  const few = rowOf(rows, '1 waiting').figures;
  const many = rowOf(rows, '1000 waiting').figures;
  return [
    goalLine('dispatch p50, 1 waiting', few.p50.median, { atMost: 5 }, ' ms'),
    goalLine('dispatch p99, 1 waiting', few.p99.median, { atMost: 25 }, ' ms'),
    goalLine('p50 from sending, 1,000 waiting beside 1', many.wholeP50.median / few.wholeP50.median, {
      atMost: 2,
    }),
  ];
}

/** One row for each number of waiting workers. */
export async function measure() {
  const rows = [];
  for (const workers of [1, 100, 1000]) {
    const service = await startService();
    try {
      const rounds = [];
      for (let round = 0; round < 3; round += 1) rounds.push(await dispatch(service.url, workers));
      rows.push({ label: `${workers} waiting`, rounds });
    } finally {
      await service.stop();
    }
  }
  return rows;
}

async function dispatch(url, workers) {
  const { send, close } = sender(url, KEY, workers + 8);
  const answeredAt = new Map();
  const over = new AbortController();
  const wait = async (worker) => {
    const resources = { cpu_cores: 1, ram_mb: 1, gpus: [] };
    bodyOf(await send('POST', '/workers/heartbeat', { worker_id: worker, resources, tags: [] }));
    while (!over.signal.aborted) {
      const { ops } = bodyOf(
        await send('POST', `/workers/${worker}/claim?wait=10`, undefined, {
          'Idempotency-Key': randomUUID(),
        }),
      );
      for (const { id } of ops) answeredAt.set(id, performance.now());
    }
  };
  const waiting = Array.from({ length: workers }, (_, n) => wait(`w${n}`).catch(() => undefined));
  await pause(1000);
  const latencies = [];
  const whole = [];
  for (let n = 0; n < RUNS; n += 1) {
    const sent = performance.now();
    const { id } = bodyOf(await send('POST', '/runs', { image: 'i' }));
    const acknowledged = performance.now();
    while (!answeredAt.has(id)) await pause(1);
    latencies.push(answeredAt.get(id) - acknowledged);
    whole.push(answeredAt.get(id) - sent);
    await pause(APART_MS);
  }
  over.abort();
  close();
  await Promise.all(waiting);
  return {
    p50: quantile(latencies, 0.5),
    p99: quantile(latencies, 0.99),
    wholeP50: quantile(whole, 0.5),
    wholeP99: quantile(whole, 0.99),
  };
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
