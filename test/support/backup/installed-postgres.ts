import { execFile, execFileSync } from 'node:child_process';
import { chown, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../programs/free-port.js';
import { makeTestDirectory } from '../test-cluster.js';

const run = promisify(execFile);

/** Where Debian puts its versions; each has a folder `bin`. */
const INSTALLED = '/usr/lib/postgresql';

/** Nobody needs these data after the test. */
const THROW_AWAY = '-c fsync=off -c synchronous_commit=off';

/** Folder of the programs of the newest PostgreSQL that the system has; undefined: none with server and pg_dump. */
export async function installedPrograms(): Promise<string | undefined> {
  const versions = (await readdir(INSTALLED).catch(() => [])).map(Number).filter((version) => version >= 14);
  for (const version of versions.toSorted((a, b) => b - a)) {
    const folder = join(INSTALLED, String(version), 'bin');
    const programs = new Set(await readdir(folder).catch(() => []));
    if (['initdb', 'pg_ctl', 'pg_dump', 'pg_restore', 'psql'].every((name) => programs.has(name)))
      return folder;
  }
  return undefined;
}

/** A cluster made by the programs of the system, as an operator's own PostgreSQL is. */
export class InstalledPostgres {
  private constructor(
    private readonly directory: string,
    private readonly programs: string,
    private readonly account: { readonly uid: number; readonly gid: number } | undefined,
    /** Of the database `postgres`, as superuser. */
    readonly url: string,
  ) {}

  /** @param programs as {@link installedPrograms} found them */
  static async start(programs: string): Promise<InstalledPostgres> {
    const account = accountOfServer();
    const directory = await makeTestDirectory('installed-postgres-');
    const home = join(directory, 'home');
    await mkdir(home, { mode: 0o700 });
    if (account) await chown(home, account.uid, account.gid);
    const port = await freePort();
    const url = `postgres://longshore@127.0.0.1:${port}/postgres?sslmode=disable`;
    const cluster = new InstalledPostgres(home, programs, account, url);
    await cluster.#run('initdb', '-D', join(home, 'data'), '-U', 'longshore', '-A', 'trust', '--no-sync');
    const options = `-c listen_addresses=127.0.0.1 -c port=${port} -c unix_socket_directories= ${THROW_AWAY}`;
    await cluster.#run(
      'pg_ctl',
      '-D',
      join(home, 'data'),
      '-l',
      join(home, 'log'),
      '-o',
      options,
      '-w',
      'start',
    );
    return cluster;
  }

  /** Ends the server at once and removes its files. */
  async stop(): Promise<void> {
    await this.#run('pg_ctl', '-D', join(this.directory, 'data'), '-m', 'immediate', '-w', 'stop');
    await rm(join(this.directory, '..'), { recursive: true, force: true, maxRetries: 5 });
  }

  async #run(program: string, ...args: readonly string[]): Promise<void> {
    await run(join(this.programs, program), [...args], { cwd: this.directory, ...this.account });
  }
}

/** Root may not run a server: then it is the account that the package made. */
export function accountOfServer(): { uid: number; gid: number } | undefined {
  if (process.getuid?.() !== 0) return undefined;
  return { uid: idOfServer('-u'), gid: idOfServer('-g') };
}

function idOfServer(option: '-u' | '-g'): number {
  return Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }));
}
