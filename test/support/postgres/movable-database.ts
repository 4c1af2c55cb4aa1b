import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readPostmasterFile } from '@longshore/embedded-postgres/postmaster-file';
import { childrenOf, processRuns, signalProcess } from '../programs/child-processes.js';
import { startEmbeddedPostgresProcess, type EmbeddedPostgresProcess } from '../embedded-postgres-process.js';
import { endServer, makeTestDirectory, THROW_AWAY } from '../test-cluster.js';
import { until } from '../service-process.js';

/** How a server is stopped: as `pg_ctl stop` names it. */
export type StopMode = 'fast' | 'immediate';

const SIGNALS = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const;

/** A PostgreSQL that can be taken away, brought back and frozen under the service; nobody else brings it back. */
export class MovableDatabase {
  #holder: EmbeddedPostgresProcess | undefined;

  private constructor(private readonly home: string) {}

  /** A cluster of its own; it is not started yet. */
  static async create(): Promise<MovableDatabase> {
    return new MovableDatabase(await makeTestDirectory('cluster-'));
  }

  /** Starts the server, or starts it again on the same address; answers its URL. */
  async bring(): Promise<string> {
    // fsync stays off; what was committed must survive the sudden ends of a test all the same.
    const serverOptions = { ...THROW_AWAY, synchronous_commit: 'on', max_connections: '100' };
    this.#holder = startEmbeddedPostgresProcess({ dataDir: join(this.home, 'data'), serverOptions });
    return (await this.#holder.ready).url;
  }

  /** Stops the server, and whoever would start it again. */
  async take(mode: StopMode = 'immediate'): Promise<void> {
    await this.#holder?.kill();
    const postmaster = await this.#postmaster();
    process.kill(postmaster, SIGNALS[mode]);
    await until(async () => !(await processRuns(postmaster)), 'the server stops');
  }

  /** Stops every process of the server where it is; connections stay open and hear nothing. */
  async freeze(): Promise<void> {
    await this.#signalAll('SIGSTOP');
  }

  /** Lets them go on. */
  async thaw(): Promise<void> {
    await this.#signalAll('SIGCONT');
  }

  /** Ends it and removes its files. */
  async remove(): Promise<void> {
    await this.#holder?.kill();
    await this.thaw().catch(() => undefined);
    await endServer(this.#cluster);
    await rm(this.home, { recursive: true, force: true, maxRetries: 5 });
  }

  get #cluster(): string {
    return join(this.home, 'data', 'postgres');
  }

  async #postmaster(): Promise<number> {
    const file = await readPostmasterFile(this.#cluster);
    if (file === null) throw new Error('the server does not run');
    return file.pid;
  }

  async #signalAll(signal: NodeJS.Signals): Promise<void> {
    const postmaster = await this.#postmaster();
    // The postmaster first: it starts no further process then.
    process.kill(postmaster, signal);
    for (const child of await childrenOf(postmaster)) signalProcess(child, signal);
  }
}
