import { execFile } from 'node:child_process';
import { chown, mkdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { freePort } from '../programs/free-port.js';
import { until } from '../service-process.js';
import { makeTestDirectory } from '../test-cluster.js';
import { accountOfServer } from './installed-postgres.js';

const run = promisify(execFile);

/** fsync stays off: only the process is killed, not the machine. */
const OPTIONS = '-c fsync=off -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c hot_standby=on';

/** A primary and a standby that follows it by streaming replication, asynchronously. */
export class ReplicatedPostgres {
  private constructor(
    private readonly programs: string,
    private readonly directory: string,
    private readonly ports: { readonly primary: number; readonly standby: number },
  ) {}

  /** @param programs folder of the programs of a PostgreSQL with a server */
  static async start(programs: string): Promise<ReplicatedPostgres> {
    const home = join(await makeTestDirectory('replicated-postgres-'), 'home');
    await mkdir(home, { mode: 0o700 });
    const account = accountOfServer();
    if (account) await chown(home, account.uid, account.gid);
    const postgres = new ReplicatedPostgres(programs, home, {
      primary: await freePort(),
      standby: await freePort(),
    });
    await postgres.#run('initdb', '-D', join(home, 'primary'), '-U', 'longshore', '-A', 'trust', '--no-sync');
    await postgres.#serve('primary');
    await postgres.#run(
      ...(['pg_basebackup', '-D', join(home, 'standby'), '-R', '-c', 'fast', '--no-sync'] as const),
      ...(['-d', `postgres://longshore@127.0.0.1:${postgres.ports.primary}`] as const),
    );
    await postgres.#serve('standby');
    return postgres;
  }

  /** Of both servers. The standby comes first: a client must ask it and go on to the primary. */
  get url(): string {
    const { primary, standby } = this.ports;
    return `postgres://longshore@127.0.0.1:${standby},127.0.0.1:${primary}/postgres?sslmode=disable&target_session_attrs=read-write`;
  }

  /** Waits until the standby has what the primary has committed. */
  async catchUp(): Promise<void> {
    const [row] = await this.#query('primary', 'select pg_current_wal_flush_lsn()::text as lsn');
    await until(async () => {
      const [standby] = await this.#query(
        'standby',
        `select pg_last_wal_replay_lsn() >= '${String(row?.['lsn'])}' as has`,
      );
      return standby?.['has'] === true;
    }, 'the standby catches up');
  }

  /** From now on the standby receives nothing. */
  async stopReplication(): Promise<void> {
    await this.#query('standby', `alter system set primary_conninfo = ''`);
    await this.#query('standby', 'select pg_reload_conf()');
    await until(
      async () => (await this.#query('primary', 'select from pg_stat_replication')).length === 0,
      'the replication ends',
    );
  }

  /** Ends the primary as a crash of its machine does. */
  async killPrimary(): Promise<void> {
    const [line = ''] = (await readFile(join(this.directory, 'primary', 'postmaster.pid'), 'utf8')).split(
      '\n',
    );
    const pid = Number(line);
    // Its processes are a process group of their own; they would end by themselves, but not at once.
    process.kill(pid, 'SIGKILL');
    await until(async () => {
      const children = await run('pgrep', ['-P', line]).then(
        ({ stdout }) => stdout,
        () => '',
      );
      return children === '';
    }, 'the processes of the primary end');
  }

  /** Its connections stay open, and their writes are refused. */
  async makePrimaryReadOnly(): Promise<void> {
    await this.#query('primary', 'alter system set default_transaction_read_only = on');
    await this.#query('primary', 'select pg_reload_conf()');
    await until(async () => {
      const [row] = await this.#query('primary', 'show transaction_read_only');
      return row?.['transaction_read_only'] === 'on';
    }, 'the primary is read-only');
  }

  async promote(): Promise<void> {
    await this.#query('standby', 'select pg_promote(true, 60)');
  }

  /** The rows of a query to the standby, which serves after a promotion. */
  query(sql: string): Promise<Record<string, unknown>[]> {
    return this.#query('standby', sql);
  }

  /** Ends both servers and removes their files. */
  async stop(): Promise<void> {
    for (const name of ['primary', 'standby']) {
      await this.#run('pg_ctl', '-D', join(this.directory, name), '-m', 'immediate', '-w', 'stop').catch(
        () => undefined,
      );
    }
    await rm(join(this.directory, '..'), { recursive: true, force: true, maxRetries: 5 });
  }

  #serve(name: 'primary' | 'standby'): Promise<void> {
    const data = join(this.directory, name);
    const options = `${OPTIONS} -c port=${this.ports[name]}`;
    return this.#run('pg_ctl', '-D', data, '-l', `${data}.log`, '-o', options, '-w', 'start');
  }

  async #query(name: 'primary' | 'standby', sql: string): Promise<Record<string, unknown>[]> {
    const client = new Client({
      host: '127.0.0.1',
      port: this.ports[name],
      user: 'longshore',
      database: 'postgres',
    });
    await client.connect();
    try {
      return (await client.query<Record<string, unknown>>(sql)).rows;
    } finally {
      await client.end();
    }
  }

  async #run(program: string, ...args: readonly string[]): Promise<void> {
    await run(join(this.programs, program), [...args], { cwd: this.directory, ...accountOfServer() });
  }
}
