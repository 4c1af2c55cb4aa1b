import { mkdir, readdir, type FileHandle } from 'node:fs/promises';
import { openFolder, openInner, pathOf } from '../../open-folder.js';
import { RunFault } from '../../runtime.js';
import { errorCode } from '@longshore/common/errors';

/** Of a new folder while nobody but the worker may use it. */
const PRIVATE = 0o700;

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
  try {
    return await openInner(folder, part);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || !wanted.mayCreate) throw error;
  }
  const isNew = await create(`${pathOf(folder)}/${part}`);
  const inner = await openInner(folder, part);
  try {
    if (isNew) await give(inner, wanted.owner);
    return inner;
  } catch (error) {
    await inner.close();
    throw error;
  }
}

/** @returns false: another one has created it meanwhile */
async function create(path: string): Promise<boolean> {
  try {
    await mkdir(path, PRIVATE);
    return true;
  } catch (error) {
    if (errorCode(error) === 'EEXIST') return false;
    throw error;
  }
}

/** A program that can write into the volume may have put another folder in its place, which stays as it is. */
async function give(folder: FileHandle, owner: FolderOwner | null): Promise<void> {
  const { uid, mode } = await folder.stat();
  const isOurs = uid === process.geteuid?.() && (mode & 0o777) === PRIVATE;
  if (!isOurs || (await readdir(pathOf(folder))).length > 0) return;
  await folder.chmod(owner === null ? 0o1777 : 0o755);
  if (owner !== null) await folder.chown(owner.uid, owner.gid);
}

function faultOf(error: unknown, { volume, path }: SubFolder): Error {
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
