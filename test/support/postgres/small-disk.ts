import { execFile } from 'node:child_process';
import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { makeDataDir } from '../service-process.js';

const run = promisify(execFile);
const CHUNK = Buffer.alloc(64 * 1024);

/** A file system of its own that can be filled up. */
export class SmallDisk {
  private constructor(readonly directory: string) {}

  /**
   * Mounts a small file system in memory; undefined where this process may not mount.
   * @param megabytes its size
   * @param at an empty folder whose owner unmounts it; default: a new one
   */
  static async mount(megabytes: number, at?: string): Promise<SmallDisk | undefined> {
    const directory = at ?? (await makeDataDir());
    try {
      await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m,mode=0755`, 'tmpfs', directory]);
    } catch {
      return undefined;
    }
    return new SmallDisk(directory);
  }

  /** Leaves no byte free. */
  async fill(): Promise<void> {
    const file = await open(this.#ballast, 'a');
    try {
      for (let size = CHUNK.length; size >= 1; size = Math.floor(size / 2)) {
        while (await fits(file.write(CHUNK, 0, size)));
      }
    } finally {
      await file.close();
    }
  }

  /** Gives back what `fill` took. */
  async free(): Promise<void> {
    await rm(this.#ballast, { force: true });
  }

  /** Takes the file system away, with everything on it. */
  async unmount(): Promise<void> {
    await run('umount', ['--lazy', this.directory]);
  }

  get #ballast(): string {
    return join(this.directory, 'ballast');
  }
}

async function fits(writing: Promise<unknown>): Promise<boolean> {
  try {
    await writing;
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOSPC') return false;
    throw error;
  }
}
