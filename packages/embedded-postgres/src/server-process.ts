import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import type { DatabaseAccount } from './database-account.js';
import { CLUSTER_USER } from './cluster-directory.js';
import type { PostgresBinaries } from './postgres-binaries.js';
import { servesCluster } from './postmaster-file.js';
import { errorCode, errorMessage, programEnvironment } from './run-program.js';
import { logTail, logSize, openServerLog } from './server-log.js';
import { SERVICE_DATABASE } from './server-owner.js';
import { SOCKET_PORT } from './socket-directory.js';

/** Settings of a small server with normal durability. */
const DEFAULT_SETTINGS: Readonly<Record<string, string>> = {
  max_connections: '200',
  // Parallel plans need /dev/shm, which is small in containers.
  max_parallel_workers_per_gather: '0',
  jit: 'off',
  random_page_cost: '1.1',
  autovacuum_naptime: '15s',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_destination: 'stderr',
  logging_collector: 'off',
  log_checkpoints: 'off',
  // Statements and error details may contain user data.
  log_min_error_statement: 'panic',
  log_error_verbosity: 'terse',
};

/** Between two looks at a process that stops. */
const POLL_MS = 25;

export interface ServerPlan {
  readonly cluster: string;
  readonly account: DatabaseAccount;
  readonly binaries: PostgresBinaries;
  readonly serverOptions: Readonly<Record<string, string>>;
}

export interface StartedServer {
  /** Undefined when the program could not be started. */
  readonly pid: number | undefined;
  /** Why it ended, with the tail of its log; undefined while it runs. */
  failure(): Promise<string | undefined>;
}

/**
 * Starts the server in its own session, so that it survives Ctrl-C and the end of the service. Its output goes to its log.
 * Returns at once: the server may still fail, see `failure`.
 * @throws RangeError for an invalid option name
 */
export async function startServer(plan: ServerPlan, socketDirectory: string): Promise<StartedServer> {
  const settings: Record<string, string> = {
    ...DEFAULT_SETTINGS,
    ...plan.serverOptions,
    listen_addresses: '',
    unix_socket_directories: socketDirectory,
    unix_socket_permissions: '0700',
    port: String(SOCKET_PORT),
  };
  const options = Object.entries(settings).flatMap(([name, value]) => {
    if (!/^[a-z_]\w*(\.\w+)?$/i.test(name)) throw new RangeError(`'${name}' is no PostgreSQL setting`);
    return ['-c', `${name}=${value}`];
  });
  const logStart = await logSize(plan.cluster);
  const log = await openServerLog(plan.cluster, plan.account);
  let ended: string | undefined;
  let pid: number | undefined;
  try {
    const { runAs } = plan.account;
    const child = spawn(plan.binaries.postgres, ['-D', plan.cluster, ...options], {
      cwd: '/',
      detached: true,
      env: programEnvironment(),
      stdio: ['ignore', log.fd, log.fd],
      ...(runAs === undefined ? {} : { uid: runAs.uid, gid: runAs.gid }),
    });
    child.once('error', (error) => {
      ended = errorMessage(error);
    });
    child.once('exit', (code, signal) => {
      ended = signal === null ? `exit code ${code}` : `signal ${signal}`;
    });
    child.unref();
    pid = child.pid;
  } finally {
    await log.close();
  }
  return {
    pid,
    failure: async () =>
      ended === undefined
        ? undefined
        : `${ended}: ${(await logTail(plan.cluster, logStart)) || 'nothing in its log'}`,
  };
}

/**
 * Stops a server in fast mode, by its pid: a server that has replaced it meanwhile goes on.
 * @throws Error when it still runs after the timeout
 */
export async function stopServer(cluster: string, pid: number, timeoutMs: number): Promise<void> {
  if (!(await servesCluster(pid, cluster))) return;
  try {
    process.kill(pid, 'SIGINT');
  } catch (error) {
    if (errorCode(error) !== 'ESRCH') throw error;
  }
  for (const deadline = Date.now() + timeoutMs; await servesCluster(pid, cluster); await sleep(POLL_MS)) {
    if (Date.now() > deadline) throw new Error(`PostgreSQL in ${cluster} (process ${pid}) does not stop`);
  }
}

/** Connection URL of the service's database on the server behind a socket directory. */
export function serverUrl(socketDirectory: string): string {
  const query = new URLSearchParams({ host: socketDirectory, sslmode: 'disable' });
  return `postgres://${CLUSTER_USER}@localhost:${SOCKET_PORT}/${SERVICE_DATABASE}?${query.toString()}`;
}
