import { mkdirSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { processStamp } from '../runtime/process/process-table.js';

const OWNER = /^([0-9]+) (.*)$/s;

/**
 * Takes a lock for the rest of this process's life. Its end frees the lock, however it ends: the lock names the process and
 * its start time. The folder holds numbered symbolic links, which appear together with their content; the highest number
 * is the owner. A link never disappears before there is a higher one, so two processes cannot both find the lock free.
 * @param folder of this lock alone; created if it is missing
 * @returns null when the lock is taken, else the pid of the process that holds it
 */
export function takeLock(folder: string): number | null {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  for (;;) {
    const newest = linksIn(folder).at(-1) ?? 0;
    const owner = newest === 0 ? null : ownerOf(folder, newest);
    if (owner !== null) return owner;
    const own = newest + 1;
    if (!createLink(folder, own)) continue;
    const links = linksIn(folder);
    if (links.at(-1) === own) {
      for (const older of links.slice(0, -1)) rmSync(join(folder, String(older)), { force: true });
      return null;
    }
    // A slower process than another one: its number was free again.
    rmSync(join(folder, String(own)), { force: true });
  }
}

/** The numbers, lowest first. */
function linksIn(folder: string): number[] {
  return readdirSync(folder)
    .filter((name) => /^[1-9][0-9]{0,14}$/.test(name))
    .map(Number)
    .toSorted((a, b) => a - b);
}

/** @returns the pid of a living owner, or null */
function ownerOf(folder: string, link: number): number | null {
  let content: string;
  try {
    content = readlinkSync(join(folder, String(link)));
  } catch {
    // Replaced by a higher one, or no link.
    return null;
  }
  const [, pid = '', stamp] = OWNER.exec(content) ?? [];
  return pid !== '' && stamp !== '' && processStamp(Number(pid)) === stamp ? Number(pid) : null;
}

/** @returns false when there is one */
function createLink(folder: string, link: number): boolean {
  try {
    symlinkSync(`${process.pid} ${processStamp(process.pid) ?? ''}`, join(folder, String(link)));
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}
