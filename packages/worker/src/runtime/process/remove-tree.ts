import { randomUUID } from 'node:crypto';
import { chmod, opendir, rename, rm, rmdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '@longshore/common/errors';

/**
 * Deletes a folder with all it holds, whatever its depth and the modes of its folders. Follows no link. Idempotent.
 * @throws Error when a part cannot be deleted, such as a folder of another user; the rest is deleted
 */
export async function removeTree(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch {
    await removeStubborn(path);
  }
}

/** Moves nested folders up to the top before it empties them, because a path has a limited length. */
async function removeStubborn(top: string): Promise<void> {
  const prefix = `removing-${randomUUID()}`;
  const waiting: string[] = [];
  const problems: unknown[] = [];
  let moved = 0;

  async function attempt(step: Promise<unknown>): Promise<void> {
    await step.catch((error: unknown) => {
      // A rejected `rm` still deletes what is beside the folder that it failed at.
      if (errorCode(error) !== 'ENOENT') problems.push(error);
    });
  }
  async function lift(folder: string, isAtTop: boolean): Promise<void> {
    const lifted = isAtTop ? folder : join(top, `${prefix}-${moved}`);
    await allowAccess(folder);
    if (!isAtTop) await rename(folder, lifted);
    moved += 1;
    waiting.push(lifted);
  }
  async function empty(folder: string): Promise<void> {
    for await (const entry of await opendir(folder)) {
      const path = join(folder, entry.name);
      await attempt(entry.isDirectory() ? lift(path, folder === top) : unlink(path));
    }
  }

  await allowAccess(top);
  await attempt(empty(top));
  for (let folder = waiting.pop(); folder !== undefined; folder = waiting.pop()) {
    await attempt(empty(folder));
    await attempt(rmdir(folder));
  }
  await attempt(rmdir(top));
  if (problems.length > 0) throw problems[0];
}

/** To empty or to move a folder, its owner needs access to it. */
async function allowAccess(folder: string): Promise<void> {
  await chmod(folder, 0o700).catch(() => undefined);
}
