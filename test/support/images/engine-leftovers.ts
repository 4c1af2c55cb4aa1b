import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FOLDER_NAME = /^longshore-engine-([0-9]+)-/;

/** Cleans up after engines of test processes that were killed before they could. */
export function sweepEngineFolders(): void {
  for (const name of readdirSync(tmpdir())) {
    const owner = Number(FOLDER_NAME.exec(name)?.[1] ?? Number.NaN);
    if (!Number.isNaN(owner) && !isAlive(owner)) cleanEngineFolder(join(tmpdir(), name));
  }
}

/**
 * Removes an engine's folder for good: ends the processes that belong to it, unmounts what is mounted under it, and
 * deletes it.
 */
export function cleanEngineFolder(folder: string): void {
  for (const pid of readdirSync('/proc').filter((name) => /^[0-9]+$/.test(name))) {
    if (Number(pid) !== process.pid && belongsTo(pid, folder)) kill(Number(pid));
  }
  const mounts = read('/proc/self/mounts')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((path) => path.startsWith(`${folder}/`));
  // The innermost first.
  for (const path of mounts.toReversed()) execFileSync('umount', ['-l', path], { stdio: 'ignore' });
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
}

/** The engine's helpers carry its folder in their command line; containers have their root file system in it. */
function belongsTo(pid: string, folder: string): boolean {
  if (read(`/proc/${pid}/cmdline`).includes(`${folder}/`)) return true;
  const mounts = read(`/proc/${pid}/mountinfo`).split('\n');
  return mounts.some((mount) => mount.split(' ')[4] === '/' && mount.includes(`${folder}/`));
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile.
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
