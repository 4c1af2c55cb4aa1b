import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '@longshore/embedded-postgres';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { socketPath } from '@longshore/embedded-postgres/socket-directory';
import { startService, until, type ServiceProcess } from '../service-process.js';
import { endServer, makeTestDirectory } from '../test-cluster.js';
import { TcpProxy, type ProxyRoute } from '../postgres/tcp-proxy.js';
import { Wire } from './wire.js';

/** Settings of every server, in seconds where they are times. */
export const CHAOS_SETTINGS = { workerTimeout: 4, reaperInterval: 0.5, maxReclaims: 1 } as const;

/** The same as the environment of a server process, with what else a load needs. */
export const CHAOS_ENV = {
  SERVICE_WORKER_POOL: 'shared',
  SERVICE_WORKER_TIMEOUT: String(CHAOS_SETTINGS.workerTimeout),
  SERVICE_REAPER_INTERVAL: String(CHAOS_SETTINGS.reaperInterval),
  SERVICE_MAX_RECLAIMS: String(CHAOS_SETTINGS.maxReclaims),
  SERVICE_LOSS_PATIENCE: '0',
} as const;

const ADMIN_KEY = 'chaos-admin-key-of-the-tests';

const RESTART_PAUSE_MS = 300;

/** What a crash of the machine would need does not matter when only processes die; what is committed must stay. */
const DATABASE_OPTIONS = { fsync: 'off', full_page_writes: 'off' } as const;

/** A server process, and the ways to it and from it to the database. */
interface Server {
  process: ServiceProcess | undefined;
  /** From clients and workers. */
  readonly http: ProxyRoute;
  /** To the database. */
  readonly database: ProxyRoute;
}

/**
 * Two server processes on one database, each behind the proxy on both sides, and the ways to harm them. Whatever was
 * done, {@link ChaosDeployment.heal} makes it good.
 */
export class ChaosDeployment {
  readonly wires: readonly Wire[];
  /** What servers said that did not come up. */
  readonly failedStarts: string[] = [];
  readonly #restarts = new Set<Promise<void>>();
  #closing: Promise<readonly (number | null | undefined)[]> | undefined;

  private constructor(
    private readonly directory: string,
    private readonly postgres: EmbeddedPostgres,
    private readonly proxy: TcpProxy,
    readonly servers: readonly [Server, Server],
  ) {
    this.wires = servers.map(({ http }) => new Wire(http.port, ADMIN_KEY));
  }

  /** Starts everything. @param seed what the proxy's faults are drawn from */
  static async start(seed: number): Promise<ChaosDeployment> {
    const directory = await makeTestDirectory('chaos-');
    const postgres = await startEmbeddedPostgres({
      dataDir: join(directory, 'data'),
      serverOptions: DATABASE_OPTIONS,
      log: () => undefined,
    });
    const proxy = await TcpProxy.start(seed);
    const socketDirectory = new URL(postgres.url).searchParams.get('host');
    assert.ok(socketDirectory !== null);
    const open = async (): Promise<Server> => ({
      process: undefined,
      http: await proxy.open({ path: '/nowhere' }),
      database: await proxy.open({ path: socketPath(socketDirectory) }),
    });
    const deployment = new ChaosDeployment(directory, postgres, proxy, [await open(), await open()]);
    // The first one migrates; the second one finds the schema.
    for (const server of deployment.servers) await deployment.#bringUp(server);
    return deployment;
  }

  /** SIGKILL; the process is replaced, as by whoever supervises it. */
  async killServer(which: number): Promise<void> {
    const server = this.#server(which);
    const { process } = server;
    if (process === undefined) return;
    server.process = undefined;
    await process.kill();
    const restart = this.#supervise(server);
    this.#restarts.add(restart);
    void restart.then(() => this.#restarts.delete(restart));
  }

  /** SIGSTOP for so many milliseconds. */
  async pauseServer(which: number, ms: number): Promise<void> {
    const { process } = this.#server(which);
    process?.signal('SIGSTOP');
    await sleep(ms);
    process?.signal('SIGCONT');
  }

  /** Ends every connection of the servers to the database. */
  async terminateBackends(): Promise<void> {
    const client = new Client({ connectionString: this.postgres.url });
    client.on('error', () => undefined);
    await client.connect();
    try {
      await client.query(
        `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'longshore%' and pid <> pg_backend_pid()`,
      );
    } finally {
      await client.end();
    }
  }

  /** Ends the database at once; its supervisor starts it again. */
  async crashDatabase(signal: 'SIGQUIT' | 'SIGKILL'): Promise<void> {
    const file = await readPostmasterFile(this.postgres.dataDir);
    if (file === null) return;
    process.kill(file.pid, signal);
    await until(async () => {
      const now = await readPostmasterFile(this.postgres.dataDir);
      return now !== null && now.pid !== file.pid && now.status === 'ready';
    }, 'the database is not started again');
  }

  /** Takes every fault away and waits until both servers answer. */
  async heal(): Promise<void> {
    for (const { process, http, database } of this.servers) {
      process?.signal('SIGCONT');
      await http.misbehave({});
      await database.misbehave({});
    }
    await Promise.all(this.#restarts);
    for (const wire of this.wires) {
      await until(
        async () => (await wire.send({ method: 'GET', path: '/health' }))?.status === 200,
        'a server is not well again',
      );
    }
  }

  /** Stops everything in order; a second call changes nothing. @returns the servers' exit codes */
  close(): Promise<readonly (number | null | undefined)[]> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<readonly (number | null | undefined)[]> {
    await Promise.all(this.#restarts);
    try {
      for (const wire of this.wires) wire.close();
      return await Promise.all(this.servers.map(async ({ process }) => process?.stop()));
    } finally {
      await this.proxy.close();
      await this.postgres.stop();
      await endServer(this.postgres.dataDir);
      await rm(this.directory, { recursive: true, force: true, maxRetries: 5 });
    }
  }

  /** Starts a server until it runs: a start may hit a fault as well. */
  async #supervise(server: Server): Promise<void> {
    while (server.process === undefined && !this.#closing) {
      try {
        await this.#bringUp(server);
      } catch (error) {
        this.failedStarts.push(error instanceof Error ? error.message : String(error));
        await sleep(RESTART_PAUSE_MS);
      }
    }
  }

  #server(which: number): Server {
    return this.servers[which % 2 === 0 ? 0 : 1];
  }

  async #bringUp(server: Server): Promise<void> {
    const { username, pathname } = new URL(this.postgres.url);
    const started = await startService({
      env: {
        DATABASE_URL: `postgres://${username}@127.0.0.1:${server.database.port}${pathname}?sslmode=disable`,
        SERVICE_API_KEYS: `admin:${ADMIN_KEY}`,
        ...CHAOS_ENV,
        SERVICE_LOG_LEVEL: 'error',
      },
    });
    await server.http.lead({ port: Number(new URL(started.url).port) });
    server.process = started;
  }
}
