import { constants } from 'node:fs';
import { open, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { errorCode } from '@longshore/common/errors';

const FOLDER = constants.O_RDONLY | constants.O_DIRECTORY;
const NO_LINK = FOLDER | constants.O_NOFOLLOW;
const FILE = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * The open folder in the file system of this process. What is done to entries below it happens in this folder, whatever has its
 * path by then, and follows a link only where the last part is one: use operations that do not follow it. Linux alone has it.
 */
export function pathOf({ fd }: FileHandle): string {
  return `/proc/self/fd/${fd}`;
}

/** Opens a folder of the operator, whose path may have links. */
export function openFolder(path: string): Promise<FileHandle> {
  return open(path, FOLDER);
}

/** Opens a folder within an open one. @throws Error ELOOP or ENOTDIR when it is a link or no folder */
export function openInner(folder: FileHandle, name: string | Buffer): Promise<FileHandle> {
  return open(Buffer.concat([Buffer.from(`${pathOf(folder)}/`), Buffer.from(name)]), NO_LINK);
}

/** Opens a folder below one of the operator, part by part. @throws Error ELOOP or ENOTDIR as above */
export async function openFolderBelow(root: string, parts: readonly string[]): Promise<FileHandle> {
  if (process.platform !== 'linux') return open(join(root, ...parts), NO_LINK);
  let folder = await openFolder(root);
  for (const part of parts) {
    try {
      const inner = await openInner(folder, part);
      await folder.close();
      folder = inner;
    } catch (error) {
      await folder.close();
      throw error;
    }
  }
  return folder;
}

/**
 * Opens a file below a folder of the operator for reading, part by part. Does not wait for pipes.
 * @throws Error ELOOP, ENOTDIR or ENXIO when a part is a link, no folder or a pipe
 */
export async function openFileBelow(
  root: string,
  folders: readonly string[],
  name: string,
): Promise<FileHandle> {
  if (process.platform !== 'linux') return open(join(root, ...folders, name), FILE);
  const folder = await openFolderBelow(root, folders);
  try {
    return await open(`${pathOf(folder)}/${name}`, FILE);
  } finally {
    await folder.close();
  }
}

/**
 * The text of a regular file of a folder; empty for anything else of that name.
 * @param maxBytes what is behind them is not read
 * @throws Error ENOENT when there is none
 */
export async function readTextIn(folder: FileHandle, name: string, maxBytes: number): Promise<string> {
  let file: FileHandle;
  try {
    file = await open(`${pathOf(folder)}/${name}`, FILE);
  } catch (error) {
    if (['ELOOP', 'ENXIO'].includes(errorCode(error))) return '';
    throw error;
  }
  try {
    const found = await file.stat();
    if (!found.isFile()) return '';
    const bytes = Buffer.alloc(Math.min(maxBytes, found.size));
    let length = 0;
    while (length < bytes.length) {
      const { bytesRead } = await file.read(bytes, length, bytes.length - length, length);
      if (bytesRead === 0) break;
      length += bytesRead;
    }
    return bytes.toString('utf8', 0, length);
  } finally {
    await file.close();
  }
}
