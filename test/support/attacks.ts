import { fork, type ChildProcess } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Whom the attacks hit, and the keys that the attacker has. */
export interface Target {
  readonly url: string;
  readonly clientKey: string;
  readonly workerKey: string;
  /** Ids of runs with 1 MB of inputs. */
  readonly largeRuns: readonly string[];
}

/** Attacks until its process is killed. */
type Attack = (target: Target) => void;

const MB = 1024 * 1024;

/** Opens connections that send what they are given, and read nothing. */
function holdUnread({ url }: Target, count: number, requests: (index: number) => string): void {
  const { hostname: host, port } = new URL(url);
  for (let index = 0; index < count; index += 1) {
    const socket = connect({ host, port: Number(port) });
    // The service may close it: that is a defence.
    socket.on('error', () => undefined);
    socket.pause();
    socket.write(requests(index));
  }
}

const get = (path: string, key?: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\n${key === undefined ? '' : `X-API-Key: ${key}\r\n`}\r\n`;

const post = (path: string, key: string, length: number): string =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

/** Sends requests one after another on each of so many connections. */
function flood(connections: number, request: (n: number) => readonly [string, RequestInit]): void {
  let n = 0;
  const send = async (): Promise<never> => {
    for (;;) {
      n += 1;
      // A refusal is a defence, and so is a closed connection.
      await fetch(...request(n))
        .then((answer) => answer.arrayBuffer())
        .catch(() => sleep(5));
    }
  };
  for (let i = 0; i < connections; i += 1) void send();
}

const json = (key: string): Record<string, string> => ({
  'X-API-Key': key,
  'Content-Type': 'application/json',
});

/** The attacks of issue 16 that one program without an engine can carry out, by name. */
const ATTACKS: Readonly<Record<string, Attack>> = {
  'pipelined documents that are not read': (target) =>
    holdUnread(target, 20, (i) => get(i % 2 === 0 ? '/docs/swagger-ui-bundle.js' : '/docs-json').repeat(300)),
  'lists of large runs that are not read': (target) =>
    holdUnread(target, 30, () => get('/runs?limit=100', target.clientKey)),
  'attempts of large runs that are not read': (target) =>
    holdUnread(target, 20, (i) =>
      get(`/runs/${target.largeRuns[i % target.largeRuns.length]}/attempts`, target.clientKey).repeat(20),
    ),
  'request bodies without an end': (target) =>
    holdUnread(target, 600, () => post('/runs', target.clientKey, MB) + `{"image":"${'x'.repeat(0.9 * MB)}`),
  'invented workers with large tags': (target) => {
    const tags = Array.from({ length: 100 }, (_, i) => `${i}`.padEnd(128, 'x'));
    const gpus = Array.from({ length: 100 }, (_, id) => ({ id, vram_mb: 1, tags }));
    const resources = { cpu_cores: 1, ram_mb: 1, gpus };
    const body = JSON.stringify({ resources, running_ops: [], tags });
    return flood(8, (n) => [
      `${target.url}/workers/invented-${n}/heartbeat`,
      { method: 'POST', headers: json(target.workerKey), body },
    ]);
  },
  'creations of large runs': (target) => {
    const body = JSON.stringify({ image: 'flood', inputs: { text: 'x'.repeat(0.95 * MB) } });
    return flood(12, () => [`${target.url}/runs`, { method: 'POST', headers: json(target.clientKey), body }]);
  },
  'readers of a feed on one connection': (target) =>
    holdUnread(target, 4, () => get('/feed/stream?topic=t', target.clientKey).repeat(1000)),
  'guesses of keys': (target) =>
    flood(8, (n) => [`${target.url}/runs`, { headers: json(`a-guess-of-a-key-${n}`) }]),
};

export const ATTACK_NAMES: readonly string[] = Object.keys(ATTACKS);

/** Starts attacks in a process of their own; killing it ends them. */
export function startAttacks(names: readonly string[], target: Target): ChildProcess {
  return fork(import.meta.filename, [JSON.stringify({ names, target })], { stdio: 'inherit' });
}

if (process.argv[1] === import.meta.filename) {
  const { names, target }: { readonly names: readonly string[]; readonly target: Target } = JSON.parse(
    process.argv[2] ?? '',
  );
  for (const name of names) ATTACKS[name]?.(target);
  // Ends with the test, however that ends.
  process.on('disconnect', () => process.exit());
}
