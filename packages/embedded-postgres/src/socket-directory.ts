import { createHash } from 'node:crypto';
import { chmod, lchown, lstat, mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseAccount } from './database-account.js';
import { errorCode } from './run-program.js';

/** Port number that names the socket file; nothing listens on it. */
export const SOCKET_PORT = 5432;

/** Longest socket path that every system takes (macOS has 104 bytes with the closing NUL, Linux 108). */
const LONGEST_SOCKET_PATH = 103;

/** Path of the server's socket file in a socket directory. */
export function socketPath(directory: string): string {
  return join(directory, `.s.PGSQL.${SOCKET_PORT}`);
}

/**
 * The directory for the server's socket: under the temporary folder, owned by the database's account, entered by
 * nobody else (0700). Its name follows from the cluster's path, so that a restart finds the same one;
 * `previous`, the directory of the server's last life, is taken before that when it is still fit.
 * The temporary folder is everybody's: a directory that is not the account's own is left alone, and one with a
 * name that cannot be guessed is made instead.
 */
export async function openSocketDirectory(
  cluster: string,
  account: DatabaseAccount,
  previous?: string,
): Promise<string> {
  if (previous !== undefined && fits(previous) && (await isOwn(previous, account))) return previous;
  const base = temporaryFolder();
  const digest = createHash('sha256').update(`${account.uid}:${cluster}`).digest('hex').slice(0, 16);
  const directory = join(base, `longshore-${digest}`);
  try {
    await mkdir(directory, { mode: 0o700 });
    await handOver(directory, account);
    return directory;
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  if (await isOwn(directory, account)) return directory;
  const unguessable = await mkdtemp(`${directory}-`);
  await handOver(unguessable, account);
  return unguessable;
}

function temporaryFolder(): string {
  const folder = tmpdir();
  // The server reads the setting as a list with its own quoting: only plain names are passed on.
  return /^\/[\w./-]*$/.test(folder) && fits(join(folder, `longshore-${'0'.repeat(16)}-XXXXXX`))
    ? folder
    : '/tmp';
}

function fits(directory: string): boolean {
  return Buffer.byteLength(socketPath(directory)) <= LONGEST_SOCKET_PATH;
}

async function isOwn(directory: string, account: DatabaseAccount): Promise<boolean> {
  try {
    const found = await lstat(directory);
    if (!found.isDirectory()) return false;
    // Root's own: made by an earlier start that was interrupted before it handed the directory over.
    const unfinished = found.uid === 0 && account.runAs !== undefined;
    if (found.uid !== account.uid && !unfinished) return false;
    await handOver(directory, account);
    return true;
  } catch {
    return false;
  }
}

async function handOver(directory: string, account: DatabaseAccount): Promise<void> {
  if (account.runAs !== undefined) await lchown(directory, account.uid, account.gid);
  await chmod(directory, 0o700);
}
