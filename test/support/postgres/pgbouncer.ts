import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { rm, stat, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../programs/free-port.js';
import { makeTestDirectory } from '../test-cluster.js';

const PROGRAM = '/usr/sbin/pgbouncer';

/** Account of a PgBouncer in front of a server on TCP: it refuses to run as root. */
const NOBODY = 65_534;

/** Why tests with a real PgBouncer are skipped; false: they run. */
export const skipWithoutPgBouncer = existsSync(PROGRAM) ? false : 'no pgbouncer (.ci/install-test-tools.sh)';

/** A real PgBouncer in front of a database. */
export class PgBouncer {
  private constructor(
    private readonly child: ChildProcess,
    private readonly directory: string,
    /** Of the database, through PgBouncer. */
    readonly url: string,
  ) {}

  /** @param settings further lines of its section `pgbouncer` */
  static async start(
    databaseUrl: string,
    settings: Readonly<Record<string, string | number>>,
  ): Promise<PgBouncer> {
    const directory = await makeTestDirectory('pgbouncer-');
    const target = new URL(databaseUrl);
    const socket = target.searchParams.get('host');
    const port = await freePort();
    const lines = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'any',
      ...settings,
    };
    const server = `host=${socket ?? target.hostname} port=${target.port || 5432} user=${target.username}`;
    const config = join(directory, 'pgbouncer.ini');
    const text = Object.entries(lines).map(([name, value]) => `${name} = ${value}\n`);
    await writeFile(config, `[databases]\n* = ${server}\n[pgbouncer]\n${text.join('')}`);
    const account = socket === null ? { uid: NOBODY, gid: NOBODY } : await stat(socket);
    const child = spawn(PROGRAM, ['-q', config], {
      stdio: 'ignore',
      ...(process.getuid?.() === 0 && { uid: account.uid || NOBODY, gid: account.gid || NOBODY }),
    });
    const url = new URL(databaseUrl);
    url.searchParams.delete('host');
    url.hostname = '127.0.0.1';
    url.port = String(port);
    const bouncer = new PgBouncer(child, directory, url.toString());
    while (!(await listens(port))) {
      if (child.exitCode !== null) throw new Error(`pgbouncer ended with ${child.exitCode}`);
      await sleep(20);
    }
    return bouncer;
  }

  async stop(): Promise<void> {
    if (this.child.exitCode === null) {
      const ended = once(this.child, 'exit');
      this.child.kill('SIGKILL');
      await ended;
    }
    await rm(this.directory, { recursive: true, force: true });
  }
}

async function listens(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1');
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}
