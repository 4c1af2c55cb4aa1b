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

/** Pids of the living members of a process group. Linux only; elsewhere none are known. */
export function groupMembers(group: number): number[] {
  if (process.platform !== 'linux') return [];
  const pids = readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name))
    .map(Number);
  return pids.filter((pid) => {
    const [state, , itsGroup] = statFields(pid) ?? [];
    return itsGroup === String(group) && state !== ZOMBIE;
  });
}

/** Whether a process was started with an environment that has this entry (`NAME=value`). Linux only; elsewhere false. */
export function hasEnvironment(pid: number, entry: string): boolean {
  if (process.platform !== 'linux') return false;
  return readText(`/proc/${pid}/environ`)?.split('\0').includes(entry) ?? false;
}

/** Signals a process group. Harmless when it is gone. */
export function signalGroup(group: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-group, signal);
  } catch {
    // ESRCH: no process is left. EPERM (macOS): only zombies are left.
  }
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
