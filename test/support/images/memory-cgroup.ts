import { mkdtemp, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Where the memory controller of version 1 or 2 is, and its file of the limit. */
const CONTROLLERS = [
  { folder: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes' },
  { folder: '/sys/fs/cgroup', limit: 'memory.max' },
] as const;

/** A limit of the memory of a process. */
export interface MemoryCgroup {
  /** Removes the limit; the process must have ended. */
  remove(): Promise<void>;
}

/** Limits what a running process holds in all. @returns undefined where the tests may not make a control group */
export async function limitMemory(pid: number, bytes: number): Promise<MemoryCgroup | undefined> {
  for (const { folder, limit } of CONTROLLERS) {
    let path: string | undefined;
    try {
      path = await mkdtemp(join(folder, 'longshore-'));
      // What the process holds already is counted for its former group.
      await writeFile(join(path, limit), String(bytes - (await residentBytes(pid))));
      await writeFile(join(path, 'cgroup.procs'), String(pid));
      const made = path;
      return { remove: () => rmdir(made) };
    } catch {
      if (path !== undefined) await rmdir(path);
    }
  }
  return undefined;
}

/** Memory of a process that is not swapped out. */
async function residentBytes(pid: number): Promise<number> {
  const [, kilobytes = '0'] =
    /^VmRSS:\s+(\d+) kB$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1024;
}
