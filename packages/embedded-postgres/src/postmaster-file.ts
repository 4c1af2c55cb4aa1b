import { chown, readFile, readlink, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { processExists, processRuns } from './process-identity.js';
import { runProgram } from './run-program.js';
import { socketPath } from './socket-directory.js';

/** No process has this pid, so PostgreSQL treats the file as that of a dead server. */
const UNUSED_PID = 2_147_483_647;

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
  let text: string;
  try {
    text = await readFile(pidFile(cluster), 'utf8');
  } catch {
    return null;
  }
  const lines = text.split('\n');
  const pid = Number(lines[0]);
  if (!Number.isInteger(pid) || pid <= 0) return null;
  return { pid, socketDirectory: lines[4]?.trim() || undefined, status: lines[7]?.trim() || undefined };
}

/** Whether a process is a running server of the cluster, and not another program with the same pid. */
export async function servesCluster(pid: number, cluster: string): Promise<boolean> {
  if (!(await processRuns(pid))) return false;
  const command = await commandOf(pid);
  // The title of a background process.
  if (command.startsWith('postgres:')) return false;
  try {
    // A server's working directory is its cluster.
    return (await readlink(`/proc/${pid}/cwd`)) === cluster;
  } catch {
    return ` ${command} `.includes(` -D ${cluster} `);
  }
}

async function commandOf(pid: number): Promise<string> {
  try {
    return (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ').trim();
  } catch {
    const result = await runProgram('ps', ['-o', 'command=', '-p', String(pid)]).catch(() => null);
    return result?.output ?? '';
  }
}

/**
 * Removes files of a dead server that prevent a start: the socket with its lock file, an empty pid file, and a pid file
 * whose pid belongs to another program. Of the latter only the first line is changed: PostgreSQL uses the rest to find
 * processes that still hold shared memory. Requires that {@link servesCluster} is false.
 */
export async function removeStaleFiles(cluster: string, socketDirectory: string): Promise<void> {
  const file = pidFile(cluster);
  const text = await readFile(file, 'utf8').catch(() => null);
  if (text !== null) {
    const named = await readPostmasterFile(cluster);
    if (named === null) await removeUnlessFilled(file);
    else if (processExists(named.pid)) await renamePid(file, text);
  }
  await rm(socketPath(socketDirectory), { force: true });
  await rm(`${socketPath(socketDirectory)}.lock`, { force: true });
}

/** A starting server creates the file a moment before it writes to it. */
async function removeUnlessFilled(file: string): Promise<void> {
  await sleep(500);
  const text = await readFile(file, 'utf8').catch(() => '');
  if (!/^\d/.test(text)) await rm(file, { force: true });
}

async function renamePid(file: string, text: string): Promise<void> {
  const { uid, gid, mode } = await stat(file);
  const replacement = `${file}.new`;
  await writeFile(replacement, [String(UNUSED_PID), ...text.split('\n').slice(1)].join('\n'), {
    mode: mode & 0o777,
  });
  if (process.getuid?.() === 0) await chown(replacement, uid, gid);
  await rename(replacement, file);
}

function pidFile(cluster: string): string {
  return join(cluster, 'postmaster.pid');
}
