import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { errorCode } from '@longshore/common/errors';

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

/** @returns false when it is a process of another user */
function signal(target: number, name: NodeJS.Signals): boolean {
  try {
    process.kill(target, name);
  } catch (error) {
    return errorCode(error) !== 'EPERM';
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
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(errorCode(error))) return null;
    throw error;
  }
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

/** How long killed processes may take to end, in milliseconds. */
const KILL_MS = 5_000;

/** Pauses between two looks at killed processes, in milliseconds. */
const PAUSE = { firstMs: 5, maxMs: 500 };

/**
 * The processes of a run: those of its group, those with its mark in their environment, and what these have started. A process without
 * mark is found while its parents live, and known from then on. Linux only; elsewhere only the group is known.
 */
export class RunProcesses {
  /** Start times by pid. */
  private readonly known = new Map<number, string>();

  /**
   * @param mark environment entry (`NAME=value`)
   * @param group null: its pid may be that of other processes by now
   */
  constructor(
    private readonly mark: string,
    private readonly group: number | null,
  ) {}

  /** Whether one of them lives that does not need its group to tell. @throws Error when the processes cannot be read */
  get isAlive(): boolean {
    return this.look(() => false).length > 0;
  }

  /** Signals the group. Call it while the group is the run's: its leader lives, or has just ended. */
  signal(name: NodeJS.Signals): void {
    if (this.group === null) return;
    try {
      // After the signal, nothing may tell whose children the members had.
      this.look((one) => one.group === this.group);
    } catch {
      // `kill` looks again.
    }
    // Only zombies are left (macOS), or processes of another user, where it cannot be signalled.
    signal(-this.group, name);
  }

  /**
   * Kills them all, also those that they start meanwhile. Resolves when they have ended.
   * @throws Error that says which live on: after {@link KILL_MS}, or at once if all others have ended and these belong to another user
   */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    const deadline = performance.now() + KILL_MS;
    const denied = new Set<number>();
    for (let pauseMs = PAUSE.firstMs; ; pauseMs = Math.min(2 * pauseMs, PAUSE.maxMs)) {
      const isLate = performance.now() > deadline;
      let left: number[] | null = null;
      try {
        left = this.look(() => false).map(({ pid }) => pid);
      } catch (error) {
        if (isLate) throw error;
      }
      if (left?.length === 0) return;
      for (const pid of left ?? []) if (!denied.has(pid) && !signal(pid, 'SIGKILL')) denied.add(pid);
      const isHopeless = left?.every((pid) => denied.has(pid)) ?? false;
      if (left !== null && (isLate || isHopeless)) throw new Error(`Processes live on: ${left.join(', ')}`);
      await sleep(pauseMs);
    }
  }

  /** All that live. @param isOurs whether a process is one of the run, in addition to those that tell by themselves */
  private look(isOurs: (one: ListedProcess) => boolean): ListedProcess[] {
    const found = processTrees(
      (one) =>
        this.known.get(one.pid) === one.startTicks || isOurs(one) || hasEnvironment(one.pid, this.mark),
    );
    for (const { pid, startTicks } of found) this.known.set(pid, startTicks);
    return found;
  }
}
