import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startEmbeddedPostgres } from '@longshore/embedded-postgres';
import type { EmbeddedPostgresOptions } from '@longshore/embedded-postgres';
import { TEST_PROGRAMS } from './programs/test-programs.js';

type ProcessOptions = Omit<EmbeddedPostgresOptions, 'log'>;

/** What a service process told about the server it started or attached to. */
export interface Ready {
  readonly url: string;
  readonly dataDir: string;
}

/** A process of its own that holds an embedded PostgreSQL, as a service does. */
export interface EmbeddedPostgresProcess {
  readonly child: ChildProcess;
  /** Rejects with the process's output when it ends before it is ready. */
  readonly ready: Promise<Ready>;
  /** Everything it logged so far. */
  readonly log: string[];
  /** SIGTERM; answers the exit code once it has ended. */
  stop(): Promise<number | null>;
  /** SIGKILL. */
  kill(): Promise<void>;
}

/** Starts such a process; `user` is whom it runs as, `script` another copy of this very file. */
export function startEmbeddedPostgresProcess(
  options: ProcessOptions,
  { user, script }: { user?: { uid: number; gid: number } | undefined; script?: string } = {},
): EmbeddedPostgresProcess {
  const child = spawn(
    process.execPath,
    [script ?? join(TEST_PROGRAMS, 'embedded-postgres-process.js'), JSON.stringify(options)],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd: '/',
      // A group of its own, as a service that was started from a terminal has.
      detached: true,
      ...user,
    },
  );
  const log: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => log.push(line));
  const exited = once(child, 'exit');
  const ready = new Promise<Ready>((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', (line) => {
      const answer: Ready = JSON.parse(line);
      resolve(answer);
    });
    void once(child, 'close').then(() => reject(new Error(`the process ended: ${log.join('\n')}`)));
  });
  ready.catch(() => undefined);
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal);
      await exited;
    }
    return child.exitCode;
  };
  return {
    child,
    ready,
    log,
    stop: () => end('SIGTERM'),
    kill: async () => {
      await end('SIGKILL');
    },
  };
}

async function main(options: ProcessOptions): Promise<void> {
  const server = await startEmbeddedPostgres({
    ...options,
    log: (message, fields) => console.error(message, JSON.stringify(fields ?? {})),
  });
  const alive = setInterval(() => undefined, 1_000);
  process.once('SIGTERM', () => {
    void server.stop().finally(() => clearInterval(alive));
  });
  console.log(JSON.stringify({ url: server.url, dataDir: server.dataDir }));
}

if (process.argv[1] === fileURLToPath(import.meta.url) && process.argv[2] !== undefined) {
  await main(JSON.parse(process.argv[2]));
}
