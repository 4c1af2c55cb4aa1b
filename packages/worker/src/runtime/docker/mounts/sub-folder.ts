import { randomUUID } from 'node:crypto';
import { lstat, mkdir, readdir, rmdir, type FileHandle } from 'node:fs/promises';
import { openFolder, openInner, pathOf } from '../../open-folder.js';
import { RunFault } from '../../runtime.js';
import { errorCode } from '@longshore/common/errors';

/**
 * The mode of a new folder until it is given away: nobody but the worker may use it. It marks what an attempt that ended in between
 * has left, which the next one finishes.
 */
const UNFINISHED = 0o1700;

export interface FolderOwner {
  readonly uid: number;
  readonly gid: number;
}

/** This machine cannot mount a volume. The message is fit for the run's error_message, and has no path of the machine. */
export class MountFault extends Error {}

/** A folder within a volume. */
export interface SubFolder {
  /** Name of the volume. */
  readonly volume: string;
  /** Folder of the volume on this machine. */
  readonly root: string;
  /** Relative, without `.` and `..`. */
  readonly path: string;
  /** Whether folders that are missing are created. */
  readonly mayCreate: boolean;
  /** Of folders that are created; null: everybody may write into them. */
  readonly owner: FolderOwner | null;
}

/**
 * Opens a folder within a volume, one part of its path after the other. No link is followed, also none that another program puts
 * there meanwhile: each part is looked up in the open folder before it.
 * @returns the open folder, which stays the same whatever happens to its path
 * @throws RunFault when the path has a link or a file, or is missing and not to be created
 * @throws MountFault when this machine cannot open it
 */
export async function openSubFolder(wanted: SubFolder): Promise<FileHandle> {
  const { volume, root, path } = wanted;
  let folder = await openFolder(root).catch((cause: unknown) => {
    throw new MountFault(`The volume '${volume}' is missing on this worker`, { cause });
  });
  try {
    for (const part of path.split('/')) {
      const inner = await openPart(folder, part, wanted);
      await folder.close();
      folder = inner;
    }
    return folder;
  } catch (error) {
    await folder.close();
    throw faultOf(error, wanted);
  }
}

async function openPart(folder: FileHandle, part: string, wanted: SubFolder): Promise<FileHandle> {
  let isNew = false;
  let inner: FileHandle;
  try {
    inner = await openInner(folder, part);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || !wanted.mayCreate) throw error;
    isNew = await create(`${pathOf(folder)}/${part}`);
    inner = await openInner(folder, part);
  }
  try {
    if (!wanted.mayCreate || !(await isUnfinished(inner, folder, isNew))) return inner;
    if (await give(inner, wanted.owner)) return inner;
    // The next attempt must not find it.
    await rmdir(`${pathOf(folder)}/${part}`);
    const { volume, path } = wanted;
    throw new MountFault(
      `This worker cannot give the folder '${path}' of the volume '${volume}' to the user of the run: its file system sets neither owner nor mode`,
    );
  } catch (error) {
    await inner.close();
    throw error;
  }
}

/** @returns false: another one has created it meanwhile */
async function create(path: string): Promise<boolean> {
  try {
    await mkdir(path, UNFINISHED);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

/**
 * Whether a worker has made the folder and not given it away yet. A program that can write into the volume may have put another
 * folder in the place of a new one: that stays as it is.
 */
async function isUnfinished(folder: FileHandle, parent: FileHandle, isNew: boolean): Promise<boolean> {
  const { uid, mode } = await folder.stat();
  // File systems with modes of their own do not keep the mark.
  if (!isNew && (mode & 0o7777) !== UNFINISHED) return false;
  if ((await readdir(pathOf(folder))).length > 0) return false;
  return uid === process.geteuid?.() || uid === (await ownerOfNew(parent));
}

/** The owner that the file system gives to what this worker makes: not the worker's user if it maps users. */
async function ownerOfNew(parent: FileHandle): Promise<number> {
  const path = `${pathOf(parent)}/.longshore-${randomUUID()}`;
  await mkdir(path, 0o700);
  try {
    return (await lstat(path)).uid;
  } finally {
    await rmdir(path);
  }
}

/** @returns whether the owner can write into it, or everybody; what the file system answers does not tell */
async function give(folder: FileHandle, owner: FolderOwner | null): Promise<boolean> {
  if (owner !== null) {
    await folder.chown(owner.uid, owner.gid).catch(ignoreRefusal);
    await folder.chmod(0o755).catch(ignoreRefusal);
    const { uid, gid, mode } = await folder.stat();
    if (uid === owner.uid && gid === owner.gid && (mode & 0o700) === 0o700) return true;
  }
  await folder.chmod(0o1777).catch(ignoreRefusal);
  return ((await folder.stat()).mode & 0o777) === 0o777;
}

function ignoreRefusal(error: unknown): void {
  if (!['EPERM', 'EACCES', 'EINVAL', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS'].includes(errorCode(error) ?? ''))
    throw error;
}

function faultOf(error: unknown, { volume, path }: SubFolder): Error {
  if (error instanceof MountFault) return error;
  const folder = `the folder '${path}' of the volume '${volume}'`;
  switch (errorCode(error)) {
    case 'ENOENT':
      return new RunFault(`There is no ${folder.slice('the '.length)}`, { cause: error });
    case 'ELOOP':
    case 'ENOTDIR':
    case 'ENAMETOOLONG':
      return new RunFault(`A part of ${folder} is a link, no folder or too long`, { cause: error });
    default:
      return new MountFault(`This worker cannot open or create ${folder}`, { cause: error });
  }
}
