import { mkdir, realpath, rmdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { checkClusterVersion, createCluster, placeCluster } from './cluster-directory.js';
import { findBinaries } from './postgres-binaries.js';
import { removeStaleFiles, readPostmasterFile, servesCluster } from './postmaster-file.js';
import { Presence } from './presence.js';
import { errorCode, errorMessage } from './run-program.js';
import { boundServerLog } from './server-log.js';
import { serverUrl, startServer, stopServer } from './server-process.js';
import type { ServerPlan, StartedServer } from './server-process.js';
import { openSocketDirectory } from './socket-directory.js';
import { withStartLock } from './start-lock.js';

/** For files that the database's account cannot reach in the data directory. */
const OUTSIDE_DIRECTORY = '/var/lib/longshore';

/** File errors that the choice of the data directory causes. */
const DATA_DIR_ERRORS: ReadonlySet<string> = new Set(['EACCES', 'EPERM', 'EROFS', 'EEXIST', 'ENOTDIR']);

const POLL_MS = 25;
const STOP_SECONDS = 60;
const CLIENT_GRACE_MS = 5_000;
const LOG_CHECK_MS = 60_000;

export interface EmbeddedPostgresOptions {
  /** Created when absent; the cluster is its subdirectory `postgres`. */
  readonly dataDir: string;
  readonly log: (message: string, fields?: object) => void;
  /** Override the default PostgreSQL settings, for example `{ fsync: 'off' }` for a temporary cluster. */
  readonly serverOptions?: Readonly<Record<string, string>>;
  /** Timeout of the start, including crash recovery and waiting for other processes. Default: 5 minutes. */
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
   * Stops the server, unless another process uses it. Idempotent. Close your own connections first.
   * @throws Error when the server does not stop
   */
  stop(): Promise<void>;
}

/**
 * Starts the PostgreSQL of a data directory, or attaches to it when it already runs. Creates the cluster at the first start.
 * Concurrent calls of several processes are safe. Restarts a server that dies, until `stop`.
 * @throws Error with the reason and a remedy
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
  private presence: Presence | undefined;
  private socketDirectory = '';
  private recovery: Promise<void> | undefined;
  private logCheck: NodeJS.Timeout | undefined;
  private stopped: Promise<void> | undefined;
  private readonly stopping = new AbortController();

  constructor(
    private readonly home: string,
    private readonly options: EmbeddedPostgresOptions,
  ) {}

  get url(): string {
    return serverUrl(this.socketDirectory);
  }

  get dataDir(): string {
    return this.prepared().cluster;
  }

  async start(): Promise<void> {
    await mkdir(this.lockDirectory, { recursive: true, mode: 0o700 });
    await this.locked(async () => {
      this.plan = await this.prepare();
      await this.bringUp(this.plan);
    });
    this.logCheck = setInterval(() => void boundServerLog(this.dataDir), LOG_CHECK_MS).unref();
  }

  stop(): Promise<void> {
    this.stopped ??= this.shutDown();
    return this.stopped;
  }

  private get lockDirectory(): string {
    return join(this.home, 'postgres-lock');
  }

  private get timeoutMs(): number {
    return this.options.timeoutMs ?? 300_000;
  }

  private prepared(): ServerPlan {
    if (this.plan === undefined) throw new Error('the embedded PostgreSQL has not been started');
    return this.plan;
  }

  private locked<T>(action: () => Promise<T>): Promise<T> {
    return withStartLock(
      this.lockDirectory,
      {
        timeoutMs: this.timeoutMs,
        onWait: (pid) =>
          this.options.log('waiting for another process that starts or stops the database', { pid }),
      },
      action,
    );
  }

  private async prepare(): Promise<ServerPlan> {
    const { log, serverOptions = {}, outsideDirectory = OUTSIDE_DIRECTORY } = this.options;
    const place = await placeCluster(this.home, outsideDirectory, log);
    const { account, cluster } = place;
    const copies = account.runAs === undefined ? this.home : outsideDirectory;
    const binaries = await findBinaries(account, copies, log);
    if (place.exists) await checkClusterVersion(cluster, binaries.majorVersion);
    else await createCluster(place, binaries, { durable: serverOptions['fsync'] !== 'off', log });
    if (!cluster.startsWith(`${this.home}/`)) {
      log('the database lies outside the data directory, which its account cannot enter', {
        directory: cluster,
        account: account.name,
      });
    }
    return { cluster, account, binaries, serverOptions };
  }

  /** Starts the server or attaches to it, and opens the presence. Requires the start lock. */
  private async bringUp(plan: ServerPlan): Promise<void> {
    const begun = Date.now();
    let started: StartedServer | undefined;
    let problem = 'it does not become ready';
    for (let nextNote = begun + 10_000; Date.now() < begun + this.timeoutMs; await sleep(POLL_MS)) {
      this.stopping.signal.throwIfAborted();
      const file = await readPostmasterFile(plan.cluster);
      if (file !== null && (await servesCluster(file.pid, plan.cluster))) {
        if (file.status === 'ready' && file.socketDirectory !== undefined) {
          try {
            this.presence = await Presence.open(file.socketDirectory, () => this.recover());
            this.socketDirectory = file.socketDirectory;
            const how = started === undefined ? 'attached to the running database' : 'started the database';
            this.options.log(how, { directory: plan.cluster, pid: file.pid, ms: Date.now() - begun });
            return;
          } catch (error) {
            problem = errorMessage(error);
          }
        }
      } else {
        const failure = await started?.failure();
        if (failure !== undefined) {
          problem = failure;
          // Child processes of a killed server may still hold its memory or files for a moment.
          if (!/still in use|already exists/.test(failure)) break;
          await sleep(500);
        }
        if (started === undefined || failure !== undefined) {
          const socketDirectory = await openSocketDirectory(
            plan.cluster,
            plan.account,
            file?.socketDirectory,
          );
          await removeStaleFiles(plan.cluster, socketDirectory);
          started = await startServer(plan, socketDirectory);
        }
      }
      if (Date.now() > nextNote) {
        nextNote = Date.now() + 10_000;
        this.options.log('the database is still starting', { directory: plan.cluster, status: file?.status });
      }
    }
    throw new Error(`PostgreSQL in ${plan.cluster} did not start: ${problem}`);
  }

  private recover(): void {
    this.presence = undefined;
    if (this.stopping.signal.aborted || this.recovery !== undefined) return;
    this.options.log('lost the connection to the embedded database, looking after it');
    this.recovery = this.keepTrying().finally(() => {
      this.recovery = undefined;
      if (this.presence === undefined) this.recover();
    });
  }

  private async keepTrying(): Promise<void> {
    for (let pause = 500; !this.stopping.signal.aborted; pause = Math.min(pause * 2, 10_000)) {
      try {
        await this.locked(() => this.bringUp(this.prepared()));
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
    const plan = this.prepared();
    await this.locked(async () => {
      const running = await this.isRunning();
      const users = running ? await this.otherUsers() : [];
      await this.presence?.close().catch(() => undefined);
      if (!running) return;
      if (users.length > 0) {
        this.options.log('left the database running: others are using it', {
          directory: plan.cluster,
          users,
        });
        return;
      }
      try {
        await stopServer(plan, STOP_SECONDS);
      } catch (error) {
        // It may have died before the signal.
        if (await this.isRunning()) throw error;
      }
      await rmdir(this.socketDirectory).catch(() => undefined);
      this.options.log('stopped the database', { directory: plan.cluster });
    });
  }

  private async isRunning(): Promise<boolean> {
    const { cluster } = this.prepared();
    const file = await readPostmasterFile(cluster);
    return file !== null && (await servesCluster(file.pid, cluster));
  }

  /** Names of the other clients, after a grace period for connections that are closing. */
  private async otherUsers(): Promise<readonly string[]> {
    const deadline = Date.now() + CLIENT_GRACE_MS;
    for (;;) {
      const others = await this.presence?.others().catch(() => undefined);
      if (others === undefined) return [];
      if (others.presences > 0) return [`${others.presences} other service(s)`, ...others.clients];
      if (others.clients.length === 0 || Date.now() > deadline) return others.clients;
      await sleep(POLL_MS);
    }
  }
}
