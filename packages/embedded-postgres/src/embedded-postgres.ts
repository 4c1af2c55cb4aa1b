import { mkdir, realpath, rmdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkClusterVersion, createCluster, placeCluster, removeUnfinished } from './cluster-directory.js';
import { findBinaries } from './postgres-binaries.js';
import { readPostmasterFile, removeStaleLocks, servesCluster } from './postmaster-file.js';
import { errorCode, errorMessage } from './run-program.js';
import { boundServerLog } from './server-log.js';
import { OwnedError, ownServer } from './server-owner.js';
import { serverUrl, startServer, stopServer } from './server-process.js';
import type { ServerPlan, StartedServer } from './server-process.js';
import { openSocketDirectory } from './socket-directory.js';

/** For files that the database's account cannot reach in the data directory. */
const OUTSIDE_DIRECTORY = '/var/lib/longshore';

/** File errors that the choice of the data directory causes. */
const DATA_DIR_ERRORS: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR']);

/**
 * Ends of a server after which it is started again: processes of a killed one still hold its memory, a lock file is stale or
 * of another server, or another owner has stopped it.
 */
const PASSING_FAILURE = /still in use|lock file .*(?:already exists|is empty|is invalid)|^exit code 0/;

const NOT_STARTED = 'the embedded PostgreSQL has not been started';

const POLL_MS = 25;
const RETRY_MS = 500;
const STOP_TIMEOUT_MS = 60_000;
const LOG_CHECK_MS = 60_000;

export interface EmbeddedPostgresOptions {
  /** Created when absent; the cluster is its subdirectory `postgres`. */
  readonly dataDir: string;
  readonly log: (message: string, fields?: object) => void;
  /** Override the default PostgreSQL settings, for example `{ fsync: 'off' }` for a temporary cluster. */
  readonly serverOptions?: Readonly<Record<string, string>>;
  /** Timeout of the start, including crash recovery. Default: 5 minutes. */
  readonly timeoutMs?: number;
  /** Parent of the files outside the data directory, for root. */
  readonly outsideDirectory?: string;
}

export interface EmbeddedPostgres {
  /** URL of the service's database, over a Unix socket; contains no secret. */
  readonly url: string;
  /** The real path of the cluster. */
  readonly dataDir: string;
  /**
   * Stops the server, and with it all connections. Idempotent.
   * @throws Error when the server does not stop
   */
  stop(): Promise<void>;
}

/**
 * Starts the PostgreSQL of a data directory, or takes over one whose owner was killed. Creates the cluster at the first
 * start. Restarts a server that dies, until `stop`.
 * @throws Error with the reason and a remedy; of concurrent calls, also of several processes, all but one are refused
 */
export async function startEmbeddedPostgres(options: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const dataDir = resolve(options.dataDir);
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o755 });
    const server = new EmbeddedServer(await realpath(dataDir), options);
    await server.start();
    return server;
  } catch (error) {
    const code = errorCode(error);
    if (code === undefined || !DATA_DIR_ERRORS.has(code)) throw error;
    throw new Error(
      `The data directory ${dataDir} cannot be used: ${errorMessage(error)}. ` +
        'Give it to the user that this process runs as, or choose another SERVICE_DATA_DIR.',
      { cause: error },
    );
  }
}

class EmbeddedServer implements EmbeddedPostgres {
  private plan: ServerPlan | undefined;
  private isOwner = false;
  /** The server that this process owns, or has started in order to own it. */
  private serverPid: number | undefined;
  private socketDirectory: string | undefined;
  private recovery: Promise<void> | undefined;
  private logCheck: NodeJS.Timeout | undefined;
  private stopped: Promise<void> | undefined;
  private readonly stopping = new AbortController();

  constructor(
    private readonly home: string,
    private readonly options: EmbeddedPostgresOptions,
  ) {}

  get url(): string {
    if (this.socketDirectory === undefined) throw new Error(NOT_STARTED);
    return serverUrl(this.socketDirectory);
  }

  get dataDir(): string {
    return this.prepared().cluster;
  }

  async start(): Promise<void> {
    this.plan = await this.prepare();
    await this.bringUp(this.plan);
    await removeUnfinished(this.dataDir);
    this.logCheck = setInterval(() => void boundServerLog(this.dataDir), LOG_CHECK_MS).unref();
  }

  stop(): Promise<void> {
    this.stopped ??= this.shutDown();
    return this.stopped;
  }

  private prepared(): ServerPlan {
    if (this.plan === undefined) throw new Error(NOT_STARTED);
    return this.plan;
  }

  private async prepare(): Promise<ServerPlan> {
    const { log, serverOptions = {}, outsideDirectory = OUTSIDE_DIRECTORY } = this.options;
    let place = await placeCluster(this.home, outsideDirectory);
    const { account } = place;
    const copies = account.runAs === undefined ? this.home : outsideDirectory;
    const binaries = await findBinaries(account, copies, log);
    if (!place.exists) {
      await createCluster(place, binaries, { durable: serverOptions['fsync'] !== 'off', log });
      place = await placeCluster(this.home, outsideDirectory);
    }
    const { cluster } = place;
    await checkClusterVersion(cluster, binaries.majorVersion);
    if (!cluster.startsWith(`${this.home}/`)) {
      log('the database lies outside the data directory, which its account cannot enter', {
        directory: cluster,
        account: account.name,
      });
    }
    return { cluster, account, binaries, serverOptions };
  }

  /** Starts the server, unless one runs, and becomes its owner. @throws Error when it has another owner, or at the timeout */
  private async bringUp(plan: ServerPlan): Promise<void> {
    const { cluster, account } = plan;
    const { log, timeoutMs = 300_000 } = this.options;
    const begun = Date.now();
    let started: StartedServer | undefined;
    let problem = 'it does not become ready';
    for (let nextNote = begun + 10_000; Date.now() < begun + timeoutMs; await sleep(POLL_MS)) {
      this.stopping.signal.throwIfAborted();
      const file = await readPostmasterFile(cluster);
      if (file !== null && (await servesCluster(file.pid, cluster))) {
        if (file.status === 'ready' && file.socketDirectory !== undefined) {
          try {
            await ownServer(file.socketDirectory, () => this.recover());
            this.isOwner = true;
            this.serverPid = file.pid;
            this.socketDirectory = file.socketDirectory;
            const how = started === undefined ? 'took over the running database' : 'started the database';
            log(how, { directory: cluster, pid: file.pid, ms: Date.now() - begun });
            return;
          } catch (error) {
            if (error instanceof OwnedError) {
              this.serverPid = undefined;
              throw this.inUse(error.owner);
            }
            problem = errorMessage(error);
          }
        }
      } else {
        const failure = await started?.failure();
        if (failure !== undefined) {
          problem = failure;
          if (!PASSING_FAILURE.test(failure)) break;
          await sleep(RETRY_MS);
          await removeStaleLocks(cluster, this.socketDirectory);
        }
        if (started === undefined || failure !== undefined) {
          this.socketDirectory = await openSocketDirectory(cluster, account, this.socketDirectory);
          started = await startServer(plan, this.socketDirectory);
          this.serverPid = started.pid;
        }
      }
      if (Date.now() > nextNote) {
        nextNote = Date.now() + 10_000;
        log('the database is still starting', { directory: cluster, status: file?.status });
      }
    }
    throw new Error(`PostgreSQL in ${cluster} did not start: ${problem}`);
  }

  private inUse(owner: string): Error {
    return new Error(
      `The data directory ${this.home} is in use: its embedded PostgreSQL belongs to ${owner}. ` +
        'Stop that service, set DATABASE_URL to share a database, or choose another SERVICE_DATA_DIR.',
    );
  }

  private recover(): void {
    this.isOwner = false;
    if (this.stopping.signal.aborted || this.recovery !== undefined) return;
    this.options.log('lost the connection to the embedded database, looking after it');
    this.recovery = this.keepTrying().finally(() => {
      this.recovery = undefined;
      if (!this.isOwner) this.recover();
    });
  }

  private async keepTrying(): Promise<void> {
    for (let pause = 500; !this.stopping.signal.aborted; pause = Math.min(pause * 2, 10_000)) {
      try {
        await this.bringUp(this.prepared());
        return;
      } catch (error) {
        if (this.stopping.signal.aborted) return;
        this.options.log('the embedded database is down', { error: errorMessage(error), retryInMs: pause });
        await sleep(pause, undefined, { signal: this.stopping.signal, ref: false }).catch(() => undefined);
      }
    }
  }

  private async shutDown(): Promise<void> {
    this.stopping.abort(new Error('the database is being stopped'));
    clearInterval(this.logCheck);
    await this.recovery;
    if (this.serverPid === undefined || this.socketDirectory === undefined) return;
    const { cluster } = this.prepared();
    await stopServer(cluster, this.serverPid, STOP_TIMEOUT_MS);
    await rmdir(this.socketDirectory).catch(() => undefined);
    this.options.log('stopped the database', { directory: cluster });
  }
}
