import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

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

/** Pids of the living members of a process group. Linux only; elsewhere none are known. */
export function groupMembers(group: number): number[] {
  if (process.platform !== 'linux') return [];
  return allPids().filter((pid) => {
    const [state, , itsGroup] = statFields(pid) ?? [];
    return itsGroup === String(group) && state !== ZOMBIE;
  });
}

/**
 * Pids of the living processes that were started with an environment that has this entry (`NAME=value`), and of the processes that
 * those have started, whatever their group or session. Linux only; elsewhere none are known.
 */
export function markedProcesses(entry: string): number[] {
  if (process.platform !== 'linux') return [];
  const marked = new Set<number>();
  const children = new Map<number, number[]>();
  for (const pid of allPids()) {
    const [state, parent] = statFields(pid) ?? [];
    if (state === undefined || state === ZOMBIE || pid === process.pid) continue;
    children.set(Number(parent), [...(children.get(Number(parent)) ?? []), pid]);
    if (hasEnvironment(pid, entry)) marked.add(pid);
  }
  // Those that are added are visited as well.
  for (const pid of marked) for (const child of children.get(pid) ?? []) marked.add(child);
  return [...marked];
}

/** How long killed processes may take to end, in milliseconds. */
const KILL_MS = 5_000;

/**
 * Kills the processes of {@link markedProcesses}, also those that they start meanwhile. Resolves when they have ended, or after
 * {@link KILL_MS}.
 */
export async function killMarked(entry: string): Promise<void> {
  const deadline = performance.now() + KILL_MS;
  for (;;) {
    const pids = markedProcesses(entry);
    if (pids.length === 0 || performance.now() > deadline) return;
    for (const pid of pids) signal(pid, 'SIGKILL');
    await sleep(5);
  }
}

/** Signals a process group. Harmless when it is gone. */
export function signalGroup(group: number, name: NodeJS.Signals): void {
  signal(-group, name);
}

function signal(target: number, name: NodeJS.Signals): void {
  try {
    process.kill(target, name);
  } catch {
    // ESRCH: no process is left. EPERM: only zombies are left (macOS), or one of another user.
  }
}

function allPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number);
}

function hasEnvironment(pid: number, entry: string): boolean {
  return readText(`/proc/${pid}/environ`)?.split('\0').includes(entry) ?? false;
}

/** The fields of /proc/PID/stat from the third (state) on; the second, a name, may hold anything. */
function statFields(pid: number): string[] | null {
  const stat = readText(`/proc/${pid}/stat`);
  return stat === null ? null : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

function bootId(): string {
  return readText('/proc/sys/kernel/random/boot_id')?.trim() ?? '';
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
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
