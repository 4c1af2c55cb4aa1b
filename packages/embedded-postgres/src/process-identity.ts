import { readFile } from 'node:fs/promises';
import { errorCode, runProgram } from './run-program.js';

/** Stands for a start time that the system does not let us read. */
const UNKNOWN_START = 'unknown';

async function readOrNull(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return null;
  }
}

/** True when a process with this id exists, whoever owns it; a zombie counts. */
export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}

/**
 * Start time of a running process as an opaque string, or null when there is no such process (a zombie counts
 * as none). Together with the pid it tells a process from a later one that was given the same pid.
 */
async function startOf(pid: number): Promise<string | null> {
  const stat = await readOrNull(`/proc/${pid}/stat`);
  if (stat !== null) {
    // The second field is the program's name in brackets and may itself hold blanks and brackets.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state, started] = [fields[0], fields[19]];
    return state === 'Z' || state === 'X' ? null : (started ?? UNKNOWN_START);
  }
  if (!processExists(pid)) return null;
  try {
    const { code, output } = await runProgram('ps', ['-o', 'state=,lstart=', '-p', String(pid)]);
    if (code !== 0) return UNKNOWN_START;
    return output.startsWith('Z') ? null : output.replace(/^\S+\s+/, '').replaceAll(/\s+/g, '_');
  } catch {
    return UNKNOWN_START;
  }
}

/** True when the process runs; a zombie does not. */
export async function processRuns(pid: number): Promise<boolean> {
  return (await startOf(pid)) !== null;
}

/**
 * A token that names this very process: pid, start time, boot of the machine. No other process, now or after a
 * restart of the machine, has the same token.
 */
export async function ownProcessToken(): Promise<string> {
  const boot = (await readOrNull('/proc/sys/kernel/random/boot_id'))?.trim() ?? '';
  return `${process.pid}:${(await startOf(process.pid)) ?? UNKNOWN_START}:${boot}`;
}

/** True while the process that {@link ownProcessToken} named is running. A malformed token names nobody. */
export async function tokenIsAlive(token: string): Promise<boolean> {
  const [pidText, started, boot] = token.split(':');
  const pid = Number(pidText);
  if (!Number.isInteger(pid) || pid <= 0 || started === undefined) return false;
  const currentBoot = (await readOrNull('/proc/sys/kernel/random/boot_id'))?.trim() ?? '';
  if ((boot ?? '') !== currentBoot) return false;
  const actual = await startOf(pid);
  if (actual === null) return false;
  return actual === started || actual === UNKNOWN_START || started === UNKNOWN_START;
}
