import { pathToFileURL } from 'node:url';
import { join } from 'node:path';
import { UNIT, worstOfFeatures, worstOfRoutes } from '../lib/load/worst-requests.mjs';
import { goalLine } from '../lib/pages/figures.mjs';
import { ROOT } from '../lib/root.mjs';
import { withOpen } from '../lib/rounds.mjs';
import { KEY, startService } from '../lib/servers/service.mjs';

export const title = 'Turns of the event loop';
export const about =
  'The longest turn of the event loop of the service, during which it answers nobody, for the worst request of each route: hostile ' +
  'values of 1 MB in each place of its body, hostile queries, paths and headers, and requests that are made of what features allow. ' +
  'One client, one request at a time; the CPU time of the main thread and the duration of the turn. Beside it JSON.parse for a body ' +
  'of 1 MB that is slow to read.';

export const figures = {
  cpuMs: { title: 'CPU of the longest turn', unit: 'ms' },
  wallMs: { title: 'its duration', unit: 'ms' },
  parseMs: { title: 'JSON.parse of 1 MB', unit: 'ms' },
};

export const plots = [{ title: 'CPU of the longest turn, ms', figure: 'cpuMs' }];

const WATCH = pathToFileURL(join(ROOT, 'bench/lib/servers/loop-watch.mjs')).href;
const MOST_MS = 50;

/** One row for each route, with the request that took the longest. */
export async function measure() {
  return withOpen(async (keep) => {
    const turns = turnsOf();
    const service = await keep(
      startService(
        { SERVICE_SECRETS_KEY: Buffer.alloc(32, 7).toString('base64') },
        { nodeOptions: [`--import=${WATCH}`], onError: turns.read },
      ),
    );
    const send = (method, path, body, headers = {}) =>
      fetch(service.url + path, {
        method,
        headers: { 'X-API-Key': KEY, ...(body && { 'Content-Type': 'application/json' }), ...headers },
        ...(method !== 'GET' && { body }),
        signal: AbortSignal.timeout(5000),
      })
        .then((answer) => answer.text())
        .catch(() => '');
    const look = () => {
      process.kill(service.pid, 'SIGUSR2');
      return turns.next();
    };
    const { id } = JSON.parse(await send('POST', '/runs', '{"image":"i","event_delivery":{"topic":"t"}}'));
    const beat = { worker_id: 'w', tags: [], resources: { cpu_cores: 1, ram_mb: 1, gpus: [] } };
    await send('POST', '/workers/heartbeat', JSON.stringify(beat));
    await send('POST', '/workers/w/claim');
    const values = { id, name: 'd', worker_id: 'w', chunk: '0' };
    const worst = new Map();
    const requests = [...worstOfFeatures(values)].map((each) => ({
      ...each,
      label: `features: ${each.title}`,
    }));
    const all = [requests, worstOfRoutes(values)];
    for (const each of all) {
      for (const { title: name, label = name.split(', ')[0], method, path, body, headers } of each) {
        await look();
        await send(method, path, body, headers);
        const turn = await look();
        if (turn.cpuMs > (worst.get(label)?.turn.cpuMs ?? -1)) worst.set(label, { turn, name });
      }
    }
    const parseMs = parseUnit();
    return [...worst].map(([label, { turn, name }]) => ({
      label,
      note: name,
      rounds: [{ ...turn, parseMs }],
    }));
  });
}

/** @param rows as measured */
export function goals(rows) {
  const longest = rows.toSorted((a, b) => b.figures.cpuMs.median - a.figures.cpuMs.median)[0];
  return [
    goalLine(
      `Longest turn of one request (${longest.label})`,
      longest.figures.cpuMs.median,
      { atMost: MOST_MS },
      ' ms',
    ),
  ];
}

/** The lines that loop-watch.mjs writes. */
function turnsOf() {
  let text = '';
  let wake;
  const found = [];
  return {
    read: (chunk) => {
      text += chunk;
      for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n')) {
        const [word, , cpuMs, wallMs] = text.slice(0, end).split(' ');
        if (word === 'loop-watch') found.push({ cpuMs: Number(cpuMs), wallMs: Number(wallMs) });
        text = text.slice(end + 1);
      }
      wake?.();
    },
    next: async () => {
      while (found.length === 0) {
        await new Promise((resolve) => {
          wake = resolve;
        });
      }
      return found.shift();
    },
  };
}

function parseUnit() {
  const before = process.cpuUsage();
  JSON.parse(UNIT);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
