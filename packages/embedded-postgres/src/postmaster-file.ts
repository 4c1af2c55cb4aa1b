import { randomUUID } from 'node:crypto';
import { link, readFile, readlink, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode, runProgram } from './run-program.js';
import { socketPath } from './socket-directory.js';

/** The content of `postmaster.pid`. */
export interface PostmasterFile {
  readonly pid: number;
  /** Directory of its Unix socket. */
  readonly socketDirectory: string | undefined;
  /** `starting`, `stopping`, `ready` or `standby`; undefined while the file is being written. */
  readonly status: string | undefined;
}

/** Null when there is no file, or no pid in it. */
export async function readPostmasterFile(cluster: string): Promise<PostmasterFile | null> {
  const lines = await readLines(pidFile(cluster));
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) return null;
  return { pid, socketDirectory: lines[4]?.trim() || undefined, status: lines[7]?.trim() || undefined };
}

/** Whether a process is a running server of the cluster, and not another program with the same pid. */
export async function servesCluster(pid: number, cluster: string): Promise<boolean> {
  const command = await readCommand(pid);
  // The title of a background process.
  if (command.startsWith('postgres:')) return false;
  if (` ${command} `.includes(` -D ${cluster} `)) return true;
  try {
    // A server's working directory is its cluster.
    return (await readlink(`/proc/${pid}/cwd`)) === cluster;
  } catch {
    return false;
  }
}

/** Empty for a process that does not run, and for a zombie. */
async function readCommand(pid: number): Promise<string> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (errorCode(error) !== 'EPERM') return '';
  }
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
  } catch {
    const result = await runProgram('ps', ['-o', 'command=', '-p', String(pid)]).catch(() => null);
    return result?.output ?? '';
  }
}

/**
 * Removes the lock files of a dead server that PostgreSQL itself does not replace: empty ones, and those whose pid belongs
 * to another program now. Does no harm to a server that starts meanwhile.
 */
export async function removeStaleLocks(cluster: string, socketDirectory: string | undefined): Promise<void> {
  const ofSocket = socketDirectory === undefined ? [] : [`${socketPath(socketDirectory)}.lock`];
  for (const file of [pidFile(cluster), ...ofSocket]) {
    if (await isOfServer(file, cluster)) continue;
    const aside = `${file}.${randomUUID()}`;
    try {
      await rename(file, aside);
    } catch (error) {
      if (errorCode(error) === 'ENOENT') continue;
      throw error;
    }
    // Another process may have replaced the file since it was read.
    if (await isOfServer(aside, cluster)) await link(aside, file).catch(() => undefined);
    await rm(aside, { force: true });
  }
}

async function isOfServer(lockFile: string, cluster: string): Promise<boolean> {
  // Negative: PostgreSQL in single-user mode.
  const pid = Math.abs(Number((await readLines(lockFile))[0]));
  return Number.isInteger(pid) && pid > 0 && servesCluster(pid, cluster);
}

async function readLines(file: string): Promise<readonly string[]> {
  return (await readFile(file, 'utf8').catch(() => '')).split('\n');
}

function pidFile(cluster: string): string {
  return join(cluster, 'postmaster.pid');
}
