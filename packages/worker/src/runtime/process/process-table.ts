import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const ZOMBIE = 'Z';

/**
 * A stamp that tells a process from a later one with the same pid: its start time, on Linux together with the machine's
 * boot. Null when there is no such process, or it has ended and only waits to be reaped.
 */
export function processStamp(pid: number): string | null {
  if (process.platform !== 'linux') return startTimeByPs(pid);
  const fields = statFields(pid);
  const startTicks = fields?.[19];
  return startTicks === undefined || fields?.[0] === ZOMBIE ? null : `${bootId()}:${startTicks}`;
}

/** A living process. */
export interface ListedProcess {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** Tells it from a later process with the same pid, until the machine starts again. */
  readonly startTicks: string;
}

/**
 * The living processes for which `isRoot` is true, and those that they have started, also in other groups and sessions. Linux
 * only; elsewhere none are known.
 * @throws Error when the processes cannot be read, such as for want of file descriptors
 */
export function processTrees(isRoot: (one: ListedProcess) => boolean): ListedProcess[] {
  const found = new Set<ListedProcess>();
  const children = new Map<number, ListedProcess[]>();
  for (const one of listProcesses()) {
    const siblings = children.get(one.parent);
    if (siblings === undefined) children.set(one.parent, [one]);
    else siblings.push(one);
    if (isRoot(one)) found.add(one);
  }
  // Those that are added are visited as well.
  for (const { pid } of found) for (const child of children.get(pid) ?? []) found.add(child);
  return [...found];
}

/** Whether a process was started with an environment that has this entry (`NAME=value`). @throws Error as {@link processTrees} */
export function hasEnvironment(pid: number, entry: string): boolean {
  return readText(`/proc/${pid}/environ`)?.split('\0').includes(entry) ?? false;
}

/** Signals a process group. Harmless when it is gone. */
export function signalGroup(group: number, name: NodeJS.Signals): void {
  // EPERM: only zombies are left (macOS), or processes of another user.
  signal(-group, name);
}

/** @returns false when it is a process of another user */
export function signal(target: number, name: NodeJS.Signals): boolean {
  try {
    process.kill(target, name);
  } catch (error) {
    return !isError(error, 'EPERM');
  }
  return true;
}

/** All but this process. */
function listProcesses(): ListedProcess[] {
  if (process.platform !== 'linux') return [];
  return readdirSync('/proc').flatMap((name) => {
    if (!/^[0-9]+$/.test(name) || name === String(process.pid)) return [];
    const fields = statFields(Number(name));
    if (fields === null || fields[0] === ZOMBIE) return [];
    const [, parent, group] = fields.map(Number);
    return [
      { pid: Number(name), parent: Number(parent), group: Number(group), startTicks: String(fields[19]) },
    ];
  });
}

/** The fields of /proc/PID/stat from the third (state) on; the second, a name, may hold anything. */
function statFields(pid: number): string[] | null {
  const stat = readText(`/proc/${pid}/stat`);
  return stat === null ? null : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

function bootId(): string {
  return readText('/proc/sys/kernel/random/boot_id')?.trim() ?? '';
}

/** @returns null when there is no such process, or it belongs to another user */
function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isError(error, 'ENOENT', 'ESRCH', 'EACCES', 'EPERM')) return null;
    throw error;
  }
}

function isError(error: unknown, ...codes: string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code));
}

function startTimeByPs(pid: number): string | null {
  try {
    const env = { PATH: process.env['PATH'] ?? '/bin:/usr/bin', LC_ALL: 'C' };
    const answer = execFileSync('ps', ['-o', 'lstart=', '-p', String(pid)], {
      encoding: 'utf8',
      env,
      stdio: 'pipe',
    });
    return answer.trim() === '' ? null : answer.trim();
  } catch {
    return null;
  }
}
