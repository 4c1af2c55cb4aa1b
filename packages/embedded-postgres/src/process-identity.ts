import { readFile } from 'node:fs/promises';
import { errorCode, runProgram } from './run-program.js';

const UNKNOWN_START = 'unknown';

async function readOrNull(path: string): Promise<string | null> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return null;
  }
}

/** Whether the process exists, as a zombie, too. */
export function processExists(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === 'EPERM';
  }
}

/** Start time of a running process, to distinguish it from a later one with the same pid; null for none or a zombie. */
async function startOf(pid: number): Promise<string | null> {
  const stat = await readOrNull(`/proc/${pid}/stat`);
  if (stat !== null) {
    // The second field, the name in brackets, may contain blanks and brackets.
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

/** Whether the process runs; a zombie does not. */
export async function processRuns(pid: number): Promise<boolean> {
  return (await startOf(pid)) !== null;
}

/** A unique token of this process: pid, start time, boot id of the machine. */
export async function ownProcessToken(): Promise<string> {
  const boot = (await readOrNull('/proc/sys/kernel/random/boot_id'))?.trim() ?? '';
  return `${process.pid}:${(await startOf(process.pid)) ?? UNKNOWN_START}:${boot}`;
}

/** Whether the process of a token is running. */
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
