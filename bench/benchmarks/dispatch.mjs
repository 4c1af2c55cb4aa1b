import { bodyOf, sender } from '../lib/http.mjs';
import { KEY, startService } from '../lib/service.mjs';
import { quantile } from '../lib/stats.mjs';

export const title = 'Dispatch to a waiting worker';
export const about =
  'From the acknowledged create to the answer of the waiting claim that gets the run, on an idle service; negative when ' +
  'the claim is answered first. The step is one run.';

const RUNS = 200;

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
      const { ops } = bodyOf(await send('POST', `/workers/${worker}/claim?wait=10`));
      for (const { id } of ops) answeredAt.set(id, performance.now());
    }
  };
  const waiting = Array.from({ length: workers }, (_, n) => wait(`w${n}`).catch(() => undefined));
  await pause(1000);
  const latencies = [];
  const began = performance.now();
  for (let n = 0; n < RUNS; n += 1) {
    const { id } = bodyOf(await send('POST', '/runs', { image: 'i' }));
    const acknowledged = performance.now();
    while (!answeredAt.has(id)) await pause(1);
    latencies.push(answeredAt.get(id) - acknowledged);
    await pause(5);
  }
  const elapsed = (performance.now() - began) / 1000;
  over.abort();
  close();
  await Promise.all(waiting);
  return { perSecond: RUNS / elapsed, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) };
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
