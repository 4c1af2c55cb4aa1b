import { createHash } from 'node:crypto';
import { chmod, lchown, lstat, mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseAccount } from './database-account.js';
import { errorCode } from './run-program.js';

/** Part of the socket file's name; nothing listens on it. */
export const SOCKET_PORT = 5432;

/** Longest socket path of all systems (macOS has 104 bytes with NUL, Linux 108). */
const LONGEST_SOCKET_PATH = 103;

/** Path of the server's socket file in a socket directory. */
export function socketPath(directory: string): string {
  return join(directory, `.s.PGSQL.${SOCKET_PORT}`);
}

/**
 * Opens the directory of the server's socket: in the temporary folder, owned by the database's account, mode 0700. Its name
 * is derived from the cluster's path. If another user owns that directory, one with a random name is created.
 * @param previous the directory of the last server, which is preferred
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
    await giveTo(directory, account);
    return directory;
  } catch (error) {
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  if (await isOwn(directory, account)) return directory;
  const unguessable = await mkdtemp(`${directory}-`);
  await giveTo(unguessable, account);
  return unguessable;
}

function temporaryFolder(): string {
  const folder = tmpdir();
  // The setting is a list with its own quoting: only plain names are safe.
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
    // Owned by root: an earlier start was interrupted before it changed the owner.
    const unfinished = found.uid === 0 && account.runAs !== undefined;
    if (found.uid !== account.uid && !unfinished) return false;
    await giveTo(directory, account);
    return true;
  } catch {
    return false;
  }
}

async function giveTo(directory: string, account: DatabaseAccount): Promise<void> {
  if (account.runAs !== undefined) await lchown(directory, account.uid, account.gid);
  await chmod(directory, 0o700);
}
