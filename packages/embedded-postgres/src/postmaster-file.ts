import { chown, readFile, readlink, rename, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { processExists, processRuns } from './process-identity.js';
import { runProgram } from './run-program.js';
import { socketPath } from './socket-directory.js';

/** No system hands out this pid, so PostgreSQL takes a file that names it for a dead server's. */
const NOBODY = 2_147_483_647;

/** What a server wrote about itself into `postmaster.pid`. */
export interface PostmasterFile {
  readonly pid: number;
  /** Directory of its Unix socket. */
  readonly socketDirectory: string | undefined;
  /** `starting`, `stopping`, `ready` or `standby`; undefined while it is still being written. */
  readonly status: string | undefined;
}

/** Reads `postmaster.pid`; null when there is none or when it does not name a process. */
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

/**
 * Whether the process that `postmaster.pid` names is a running server of this cluster, and not a dead one or
 * another program that was given the same pid after a crash.
 */
export async function servesCluster(pid: number, cluster: string): Promise<boolean> {
  if (!(await processRuns(pid))) return false;
  const command = await commandOf(pid);
  // Background processes of a server call themselves "postgres: what they do".
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
 * Clears what a dead server left behind and a new one would stumble over: a pid file whose pid now belongs to
 * another program (only its first line is changed, because PostgreSQL uses the rest to find out whether processes
 * of the old server still hold the shared memory), an empty pid file, and the socket with its lock file.
 * Call it only when {@link servesCluster} said no.
 */
export async function clearRemains(cluster: string, socketDirectory: string): Promise<void> {
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

/** A server that is just starting creates the file a moment before it writes into it. */
async function removeUnlessFilled(file: string): Promise<void> {
  await sleep(500);
  const text = await readFile(file, 'utf8').catch(() => '');
  if (!/^\d/.test(text)) await rm(file, { force: true });
}

async function renamePid(file: string, text: string): Promise<void> {
  const { uid, gid, mode } = await stat(file);
  const replacement = `${file}.new`;
  await writeFile(replacement, [String(NOBODY), ...text.split('\n').slice(1)].join('\n'), {
    mode: mode & 0o777,
  });
  if (process.getuid?.() === 0) await chown(replacement, uid, gid);
  await rename(replacement, file);
}

function pidFile(cluster: string): string {
  return join(cluster, 'postmaster.pid');
}
