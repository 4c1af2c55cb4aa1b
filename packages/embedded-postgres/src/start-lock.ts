import { randomUUID } from 'node:crypto';
import { readdir, readlink, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { ownProcessToken, tokenIsAlive } from './process-identity.js';
import { errorCode } from './run-program.js';

const RELEASED = 'released';
const POLL_MS = 50;
/** Past tickets that are kept, so that a slow reader of the directory finds a newer one. */
const KEPT_TICKETS = 32;

export interface StartLockOptions {
  readonly timeoutMs: number;
  /** Called once with the pid of another holder. */
  readonly onWait?: (pid: number) => void;
}

/**
 * Runs `action` while holding an exclusive lock between processes, and between callers of one process. The end of the
 * holder, or a reboot, releases the lock.
 *
 * The directory contains numbered tickets: symbolic links, created atomically, whose target is the token of the holder's
 * process. The highest number holds the lock. A ticket is never removed by others, only followed by the next number when
 * its holder has released it or has ended; so two processes that find the same dead holder cannot both follow it.
 * @param directory existing, used for nothing else
 * @throws Error after the timeout; whatever `action` throws
 */
export async function withStartLock<T>(
  directory: string,
  options: StartLockOptions,
  action: () => Promise<T>,
): Promise<T> {
  const ticket = await acquire(directory, options);
  try {
    return await action();
  } finally {
    await release(directory, ticket);
  }
}

async function acquire(directory: string, options: StartLockOptions): Promise<number> {
  const token = await ownProcessToken();
  const deadline = Date.now() + options.timeoutMs;
  let announced = false;
  for (;;) {
    const top = Math.max(0, ...(await tickets(directory)));
    const holder = top === 0 ? RELEASED : await holderOf(directory, top);
    if (holder === null) continue;
    if (holder !== RELEASED && (await tokenIsAlive(holder))) {
      if (!announced) options.onWait?.(Number.parseInt(holder, 10));
      announced = true;
      if (Date.now() > deadline) {
        throw new Error(`process ${Number.parseInt(holder, 10)} has kept the lock ${directory} for too long`);
      }
      await sleep(POLL_MS);
      continue;
    }
    const mine = top + 1;
    if (!(await tryTake(directory, mine, token))) continue;
    // An outdated listing may have led to a number that was used and removed before.
    const now = await tickets(directory);
    if (Math.max(...now) === mine) {
      await Promise.all(
        now.filter((number) => number < mine - KEPT_TICKETS).map((old) => drop(directory, old)),
      );
      return mine;
    }
    await drop(directory, mine);
  }
}

async function tickets(directory: string): Promise<number[]> {
  return (await readdir(directory)).filter((name) => /^\d+$/.test(name)).map(Number);
}

async function holderOf(directory: string, ticket: number): Promise<string | null> {
  try {
    return await readlink(join(directory, String(ticket)));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}

async function tryTake(directory: string, ticket: number, token: string): Promise<boolean> {
  try {
    await symlink(token, join(directory, String(ticket)));
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

async function drop(directory: string, ticket: number): Promise<void> {
  await rm(join(directory, String(ticket)), { force: true });
}

async function release(directory: string, ticket: number): Promise<void> {
  const marker = join(directory, `release-${randomUUID()}`);
  try {
    await symlink(RELEASED, marker);
    await rename(marker, join(directory, String(ticket)));
  } catch (error) {
    // The data directory may have been removed meanwhile.
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}
