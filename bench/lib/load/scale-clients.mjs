// The clients that a large deployment has besides its lifecycles, in a process of their own: workers that send heartbeats,
// and open dashboards, each kind spread evenly over time. One message says how many; each `report` message is answered with the
// latencies since the last one.
import { once } from 'node:events';
import { openStreams } from './event-streams.mjs';
import { sender } from './http.mjs';
import { heartbeatOf } from './scenarios.mjs';

const CONNECTIONS = 256;
const HEARTBEAT_MS = 10_000;

/** What the pages of a dashboard ask for every two seconds: half of the dashboards show the overview, half a list. */
const DASHBOARD_MS = 2_000;
const PAGES = ['/overview', '/runs?limit=25', '/overview', '/runs?limit=25&state=FAILED'];

/** Streams that are opened at a time. */
const AT_ONCE = 50;

const [{ url, key, workers, dashboards, streams }] = await once(process, 'message');
const { send } = sender(url, key, CONNECTIONS);
const kinds = new Map();

/** Sends requests at their times, whether or not earlier ones have been answered. */
function repeat(kind, count, everyMs, ask) {
  kinds.set(kind, { latencies: [], failures: 0 });
  if (count === 0) return;
  const startedAt = performance.now();
  let sent = 0;
  setInterval(() => {
    for (; sent < ((performance.now() - startedAt) * count) / everyMs; sent += 1)
      void timed(kind, ask(sent % count));
  }, 5);
}

async function timed(kind, answering) {
  const from = performance.now();
  const counts = kinds.get(kind);
  const answer = await answering.catch(() => null);
  if (answer !== null && answer.status < 300) counts.latencies.push(performance.now() - from);
  else counts.failures += 1;
}

const heartbeat = (n) => send('POST', '/workers/heartbeat', heartbeatOf(`scale-${n}`));
for (let n = 0; n < workers; n += AT_ONCE) {
  const group = Array.from({ length: Math.min(AT_ONCE, workers - n) }, (_, k) => n + k);
  await Promise.all(group.map((k) => heartbeat(k)));
}
for (let n = 0; n < streams; n += AT_ONCE) {
  const topics = Array.from({ length: Math.min(AT_ONCE, streams - n) }, (_, k) => `scale-${n + k}`);
  await openStreams(url, key, topics);
}
repeat('heartbeats', workers, HEARTBEAT_MS, heartbeat);
repeat('dashboards', dashboards, DASHBOARD_MS, (n) => send('GET', PAGES[n % PAGES.length]));
process.on('message', () => {
  const report = {};
  for (const [kind, { latencies, failures }] of kinds) {
    report[kind] = { latencies: Float64Array.from(latencies), failures };
    kinds.set(kind, { latencies: [], failures: 0 });
  }
  process.send(report);
});
process.once('disconnect', () => process.exit(0));
process.send('ready');
