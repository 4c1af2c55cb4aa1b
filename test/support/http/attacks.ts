import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { TEST_PROGRAMS } from '../programs/test-programs.js';

/** Whom the attacks hit, and the keys that the attacker has. */
export interface Target {
  readonly url: string;
  readonly clientKey: string;
  readonly workerKey: string;
  /** Ids of runs with 1 MB of inputs. */
  readonly largeRuns: readonly string[];
}

/** Is told the status of an answer that began. */
type Seen = (status: number) => void;

interface Attack {
  /** Statuses that it must get, when no other attack runs: what it takes, or its refusal at the limit. Else it attacks nothing. */
  readonly gets: readonly number[];
  /** Attacks until the process is killed. */
  readonly start: (target: Target, seen: Seen) => void;
}

/** Answers of each status, by attack. */
type Answers = Readonly<Record<string, Readonly<Record<number, number>>>>;

const MB = 1024 * 1024;

/** Opens connections that send what they are given, and read nothing behind the beginning of the first answer. */
function holdUnread({ url }: Target, seen: Seen, count: number, requests: (index: number) => string): void {
  const { hostname: host, port } = new URL(url);
  for (let index = 0; index < count; index += 1) {
    const socket = connect({ host, port: Number(port) });
    // The service may close it: that is a defence.
    socket.on('error', () => undefined);
    socket.once('data', (data) => {
      socket.pause();
      seen(Number(data.toString('latin1', 9, 12)));
    });
    socket.write(requests(index));
  }
}

const get = (path: string, key?: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\n${key === undefined ? '' : `X-API-Key: ${key}\r\n`}\r\n`;

const post = (path: string, key: string, length: number): string =>
  `POST ${path} HTTP/1.1\r\nHost: x\r\nX-API-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;

/** Sends requests one after another on each of so many connections. */
function flood(
  connections: number,
  seen: Seen,
  request: (n: number) => readonly [string, RequestInit],
): void {
  let n = 0;
  const send = async (): Promise<never> => {
    for (;;) {
      n += 1;
      // A refusal is a defence, and so is a closed connection.
      await fetch(...request(n))
        .then((answer) => {
          seen(answer.status);
          return answer.arrayBuffer();
        })
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
  'pipelined documents that are not read': {
    gets: [200],
    start: (target, seen) =>
      holdUnread(target, seen, 20, (i) =>
        get(i % 2 === 0 ? '/docs/swagger-ui-bundle.js' : '/docs-json').repeat(300),
      ),
  },
  'lists of large runs that are not read': {
    gets: [200],
    start: (target, seen) => holdUnread(target, seen, 30, () => get('/runs?limit=100', target.clientKey)),
  },
  'attempts of large runs that are not read': {
    gets: [200],
    start: (target, seen) =>
      holdUnread(target, seen, 20, (i) =>
        get(`/runs/${target.largeRuns[i % target.largeRuns.length]}/attempts`, target.clientKey).repeat(20),
      ),
  },
  'request bodies without an end': {
    gets: [429],
    start: (target, seen) =>
      holdUnread(
        target,
        seen,
        600,
        () => post('/runs', target.clientKey, MB) + `{"image":"${'x'.repeat(0.9 * MB)}`,
      ),
  },
  'invented workers with large tags': {
    gets: [200, 429],
    start: (target, seen) => {
      // Up to SERVICE_MAX_WORKERS_PER_KEY.
      const tags = Array.from({ length: 90 }, (_, i) => `${i}`.padEnd(128, 'x'));
      const resources = { cpu_cores: 1, ram_mb: 1, gpus: [{ id: 0, vram_mb: 1, tags: [] }] };
      flood(2, seen, (n) => [
        `${target.url}/workers/heartbeat`,
        {
          method: 'POST',
          headers: json(target.workerKey),
          body: JSON.stringify({ worker_id: `invented-${n}`, resources, running_ops: [], tags }),
        },
      ]);
    },
  },
  'creations of large runs': {
    gets: [201],
    start: (target, seen) => {
      const body = JSON.stringify({ image: 'flood', inputs: { text: 'x'.repeat(0.95 * MB) } });
      flood(12, seen, () => [
        `${target.url}/runs`,
        { method: 'POST', headers: json(target.clientKey), body },
      ]);
    },
  },
  'readers of a feed on one connection': {
    gets: [200],
    start: (target, seen) =>
      holdUnread(target, seen, 4, () => get('/feed/stream?topic=t', target.clientKey).repeat(1000)),
  },
  'guesses of keys': {
    gets: [401, 429],
    start: (target, seen) =>
      flood(8, seen, (n) => [`${target.url}/runs`, { headers: json(`a-guess-of-a-key-${n}`) }]),
  },
};

export const ATTACK_NAMES: readonly string[] = Object.keys(ATTACKS);

/** Starts attacks in a process of their own; killing it ends them. */
export function startAttacks(names: readonly string[], target: Target): ChildProcess {
  return fork(join(TEST_PROGRAMS, 'attacks.js'), [JSON.stringify({ names, target })], { stdio: 'inherit' });
}

/** The statuses that an attack must get and has not got yet. */
export async function missingAnswers(name: string, attacker: ChildProcess): Promise<readonly number[]> {
  attacker.send('answers?');
  const [answers]: Answers[] = await once(attacker, 'message');
  return ATTACKS[name]?.gets.filter((status) => !answers?.[name]?.[status]) ?? [];
}

if (process.argv[1] === import.meta.filename) {
  const { names, target }: { readonly names: readonly string[]; readonly target: Target } = JSON.parse(
    process.argv[2] ?? '',
  );
  const answers: Record<string, Record<number, number>> = {};
  for (const name of names) {
    const got: Record<number, number> = (answers[name] = {});
    ATTACKS[name]?.start(target, (status) => {
      got[status] = (got[status] ?? 0) + 1;
    });
  }
  process.on('message', () => process.send?.(answers));
  // Ends with the test, however that ends.
  process.on('disconnect', () => process.exit());
}
