import { readdir, readFile } from 'node:fs/promises';

/** Processes that the given one has started and that run. */
export async function childrenOf(parent: number): Promise<number[]> {
  const children: number[] = [];
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '');
    if (stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] === String(parent)) children.push(Number(name));
  }
  return children;
}

/** Whether the process runs; a zombie does not. */
export async function processRuns(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EPERM')) return false;
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  return !/^[ZX] /.test(stat.slice(stat.lastIndexOf(')') + 2));
}

/** Sends a signal to a process; one that has ended since it was listed needs none. */
export function signalProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}
