import { createHash, randomBytes } from 'node:crypto';
import { existsSync, lstatSync, mkdirSync, readlinkSync, symlinkSync, readdirSync, rmSync } from 'node:fs';
import { homedir, hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { SettingsError } from '@longshore/common/settings/setting';
import { processStamp } from '../runtime/process/process-table.js';
import { errorText, errorCode } from '@longshore/common/errors';

/** How many workers without an id of their own one state folder can have. */
const MAX_SLOTS = 1024;

const INSTANCE = /^[0-9a-f]{8}$/;

/** Who this worker is, for the service and for what it leaves on the machine. */
export interface WorkerIdentity {
  readonly workerId: string;
  /** Random name of the state folder: only processes with the same one can see each other's locks. */
  readonly instance: string;
}

export interface TakenIdentity extends WorkerIdentity {
  /** Whether an earlier process had the id in this state folder: then what the service has assigned to it was of that one. */
  readonly isSuccessor: boolean;
  /** Path of the state folder. */
  readonly stateFolder: string;
}

export interface IdentityOptions {
  /** SERVICE_WORKER_ID; null: not set. */
  readonly workerId: string | null;
  /** SERVICE_WORKER_STATE_DIR; null: not set. */
  readonly stateDir: string | null;
  readonly host?: string;
  readonly env?: Readonly<NodeJS.ProcessEnv>;
}

/**
 * Opens the state folder and takes the worker's id for the rest of this process's life. Without a configured id, it is the
 * host name and a suffix from the state folder, and for a second worker beside the first also a number: `HOST-1f3a90cc-2`.
 * @throws SettingsError when the folder cannot be used, or another process of this machine has the id
 */
export function takeIdentity({
  workerId,
  stateDir,
  host = hostname(),
  env = process.env,
}: IdentityOptions): TakenIdentity {
  const folder = stateDir === null ? openDefaultFolder(env) : openFolder(stateDir);
  const instance = readInstance(folder);
  if (workerId !== null) {
    const { owner, isSuccessor } = takeId(folder, workerId);
    if (owner === null) return { workerId, instance, isSuccessor, stateFolder: folder };
    throw new SettingsError([
      `SERVICE_WORKER_ID: the id '${workerId}' is in use on this machine by process ${owner}; ` +
        'stop that worker, or give this one another id (without SERVICE_WORKER_ID it chooses one)',
    ]);
  }
  const first = `${hostPart(host)}-${instance}`;
  for (let slot = 1; slot <= MAX_SLOTS; slot++) {
    const id = slot === 1 ? first : `${first}-${slot}`;
    const { owner, isSuccessor } = takeId(folder, id);
    if (owner === null) return { workerId: id, instance, isSuccessor, stateFolder: folder };
  }
  throw new SettingsError([`SERVICE_WORKER_STATE_DIR: '${folder}' has ${MAX_SLOTS} running workers`]);
}

/** The part of a worker id that comes from the host name. */
export function hostPart(host: string): string {
  const id = host
    .replace(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, 100);
  return id === '' ? 'worker' : id;
}

/** Takes the lock of an id. `owner`: as of `takeLock`; `isSuccessor`: whether another process has, or had, it. */
function takeId(folder: string, workerId: string): { owner: number | null; isSuccessor: boolean } {
  const lock = lockOf(folder, workerId);
  const isSuccessor = existsSync(lock) && linksIn(lock).length > 0;
  return { owner: takeLock(lock), isSuccessor };
}

function lockOf(folder: string, workerId: string): string {
  return join(folder, 'ids', fileNameOf(workerId));
}

/** Ids may hold characters that file names may not. */
export function fileNameOf(workerId: string): string {
  return createHash('sha256').update(workerId).digest('hex').slice(0, 32);
}

/** The state folder of the user; without a home that can be written, a folder that lasts until the next start of the machine. */
function openDefaultFolder(env: Readonly<NodeJS.ProcessEnv>): string {
  const home = env['XDG_STATE_HOME'] || join(env['HOME'] || homedir(), '.local', 'state');
  try {
    return openFolder(join(home, 'longshore-worker'));
  } catch {
    return openFolder(join(tmpdir(), `longshore-worker-${process.getuid?.() ?? 'user'}`));
  }
}

/** @throws SettingsError when it cannot be created or belongs to another user */
function openFolder(path: string): string {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 });
    const found = lstatSync(path);
    if (!found.isDirectory() || (process.getuid !== undefined && found.uid !== process.getuid()))
      throw new Error('it is not a folder of this user');
    mkdirSync(join(path, 'ids'), { recursive: true, mode: 0o700 });
    return path;
  } catch (error) {
    throw new SettingsError([`SERVICE_WORKER_STATE_DIR: '${path}' cannot be used: ${errorText(error)}`]);
  }
}

/** A symbolic link, because it appears together with its content. */
function readInstance(folder: string): string {
  const path = join(folder, 'instance');
  try {
    symlinkSync(randomBytes(4).toString('hex'), path);
  } catch (error) {
    if (errorCode(error) !== 'EEXIST')
      throw new SettingsError([`SERVICE_WORKER_STATE_DIR: '${path}' cannot be written: ${String(error)}`]);
  }
  const instance = readlinkSync(path);
  if (!INSTANCE.test(instance))
    throw new SettingsError([`SERVICE_WORKER_STATE_DIR: '${path}' was not written by a worker; remove it`]);
  return instance;
}

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
    const owner = newest === 0 ? null : readOwner(folder, newest);
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
function readOwner(folder: string, link: number): number | null {
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
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}
