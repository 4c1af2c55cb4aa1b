import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, open, readdir, rename, rm, rmdir, unlink, type FileHandle } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { errorCode } from '@longshore/common/errors';
import { openFolder, pathOf } from '../open-folder.js';

const NO_LINK = constants.O_DIRECTORY | constants.O_NOFOLLOW;
/** Of Linux: opens what may not be read. Node does not name it. */
const O_PATH = 0o10000000;

/** How often a folder is read again that is not empty after all of it was removed. */
const ROUNDS = 3;

/**
 * Deletes a folder with all it holds, whatever its depth, the modes of its folders and the bytes of its names. Each entry is removed
 * in the open folder that has it, so that no link leads elsewhere, also none that a program puts in the place of a folder
 * meanwhile. Other file systems that are mounted in it stay. Idempotent.
 * @param path its folder is the operator's: links are followed there
 * @throws Error when a part cannot be deleted, such as a folder of another user; the rest is deleted
 */
export async function removeTree(path: string): Promise<void> {
  if (process.platform !== 'linux') return rm(path, { recursive: true, force: true });
  const parent = await unlessMissing(openFolder(dirname(path)));
  if (parent === null) return;
  try {
    await removeEntry(parent, Buffer.from(basename(path)), (top) => new Removal(top).run());
  } finally {
    await parent.close();
  }
}

/** The removal of what is in an open folder. Needs as many open files for a deep tree as for a flat one. */
class Removal {
  private readonly prefix = `removing-${randomUUID()}-`;
  private moved = 0;
  private problem: unknown = null;

  constructor(private readonly top: FileHandle) {}

  /** @throws Error the first problem, when all is removed that can be */
  async run(): Promise<void> {
    await this.empty(this.top);
    for (let index = 0; index < this.moved; index += 1) {
      const name = Buffer.from(`${this.prefix}${index}`);
      await this.attempt(removeEntry(this.top, name, (folder) => this.empty(folder)));
    }
    if (this.problem !== null) throw this.problem;
  }

  /** Removes files, and moves folders to the top. */
  private async empty(folder: FileHandle): Promise<void> {
    // Of the encodings of Node, this one changes no byte of a name.
    for (const entry of await readdir(pathOf(folder), 'latin1')) {
      const name = Buffer.from(entry, 'latin1');
      await this.attempt(
        unlink(entryOf(folder, name)).catch((error: unknown) => {
          if (errorCode(error) !== 'EISDIR') throw error;
          return this.lift(folder, name);
        }),
      );
    }
  }

  private async lift(folder: FileHandle, name: Buffer): Promise<void> {
    const lifted = entryOf(this.top, Buffer.from(`${this.prefix}${this.moved}`));
    try {
      await rename(entryOf(folder, name), lifted);
    } catch (error) {
      if (errorCode(error) !== 'EACCES') throw error;
      // Its owner needs access to a folder that is moved.
      await (await openToEmpty(folder, name))?.close();
      await rename(entryOf(folder, name), lifted);
    }
    this.moved += 1;
  }

  private async attempt(step: Promise<unknown>): Promise<void> {
    await unlessMissing(step).catch((error: unknown) => {
      this.problem ??= error;
    });
  }
}

/** Removes an entry of a folder. @param empty removes what is in it, if it is a folder */
async function removeEntry(
  folder: FileHandle,
  name: Buffer,
  empty: (inner: FileHandle) => Promise<void>,
): Promise<void> {
  const inner = await openToEmpty(folder, name);
  if (inner === null) {
    await unlessMissing(unlink(entryOf(folder, name)));
    return;
  }
  try {
    for (let round = 1; ; round += 1) {
      await empty(inner);
      const isRemoved = await unlessMissing(rmdir(entryOf(folder, name))).then(
        () => true,
        (error: unknown) => {
          if (errorCode(error) !== 'ENOTEMPTY' || round === ROUNDS) throw error;
          return false;
        },
      );
      if (isRemoved) return;
    }
  } finally {
    await inner.close();
  }
}

/** Opens a folder in another one, and gives its owner access to it. @returns null: it is missing, a link or no folder */
async function openToEmpty(folder: FileHandle, name: Buffer): Promise<FileHandle | null> {
  let closed: FileHandle;
  try {
    closed = await open(entryOf(folder, name), O_PATH | NO_LINK);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP'].includes(errorCode(error))) return null;
    throw error;
  }
  try {
    const { mode } = await closed.stat();
    if ((mode & 0o700) !== 0o700) await chmod(pathOf(closed), 0o700).catch(() => undefined);
    return await open(pathOf(closed), constants.O_RDONLY | constants.O_DIRECTORY);
  } finally {
    await closed.close();
  }
}

function entryOf(folder: FileHandle, name: Buffer): Buffer {
  return Buffer.concat([Buffer.from(`${pathOf(folder)}/`), name]);
}

/** @returns null: there is nothing of that name */
async function unlessMissing<T>(step: Promise<T>): Promise<T | null> {
  try {
    return await step;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}
