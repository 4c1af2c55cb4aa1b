import { createWriteStream } from 'node:fs';
import { chmod, link, mkdir, readdir, symlink, type FileHandle } from 'node:fs/promises';
import { dirname, join, posix } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { errorCode } from '@longshore/common/errors';
import { openFileBelow, openFolderBelow, pathOf } from '../open-folder.js';
import {
  EngineFault,
  RunFault,
  type ArtifactPlaces,
  type EndedFiles,
  type FetchedEntry,
} from '../runtime.js';

/** Errors that the paths of the run cause, on every machine. */
const BY_PATHS: ReadonlySet<string> = new Set([
  'ENAMETOOLONG',
  'ENOTDIR',
  'EEXIST',
  'ELOOP',
  'EINVAL',
  'EILSEQ',
  // Of a file with too many names, or where a file system lets it have one alone.
  'EMLINK',
  'EPERM',
  'ENOTSUP',
]);

/**
 * Puts what was fetched for a run below a folder of the attempt that has nothing yet, and makes the folders for what it gives.
 * @param makeFolder makes the folders that belong to the user of the run, with those that they are in
 * @throws RunFault when something cannot be at its path
 * @throws EngineFault when the folder cannot be written
 */
export async function fillFilesRoot(
  root: string,
  { fetched, folders }: ArtifactPlaces,
  makeFolder: (path: string) => Promise<void> = makeAll,
): Promise<void> {
  for (const source of fetched) {
    const { path, kind } = source;
    const place = join(root, checked(path));
    try {
      await (kind === 'folder' ? makeFolder(place) : makeAll(dirname(place)));
      for await (const entry of source.entries()) await put(place, entry, makeFolder);
    } catch (error) {
      throw faultOf(path, error);
    }
  }
  for (const folder of folders) {
    await makeFolder(join(root, checked(folder))).catch((error: unknown) => {
      if (errorCode(error) === 'ENOENT')
        throw new RunFault(`The folder '${folder}' could not be made: a link in its path leads nowhere`);
      throw faultOf(folder, error);
    });
  }
}

async function makeAll(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
}

async function put(
  place: string,
  entry: FetchedEntry,
  makeFolder: (path: string) => Promise<void>,
): Promise<void> {
  const path = join(place, entry.path);
  switch (entry.kind) {
    case 'folder':
      return makeFolder(path);
    case 'file':
      await pipeline(entry.content, createWriteStream(path, { flags: 'wx' }));
      await chmod(path, entry.mode);
      return;
    case 'same':
      await link(join(place, entry.as), path);
      return;
    case 'link':
      await symlink(entry.target, path);
  }
}

function checked(path: string): string {
  if (!posix.isAbsolute(path) || posix.normalize(path) !== path)
    throw new RunFault(`The path '${path}' cannot be used: it is no absolute path in its shortest form`);
  return path;
}

function faultOf(path: string, error: unknown): unknown {
  const code = errorCode(error);
  if (code === '') return error;
  const message = `The file for '${path}' could not be put into the folder of the run (${code})`;
  return BY_PATHS.has(code) ? new RunFault(message) : new EngineFault(message, { cause: error });
}

/**
 * The files below a folder of the attempt, whose program has ended.
 * @param root folder of the operator
 * @param folders the way from there to that folder
 * @param isAlone whether a file cannot have a second name that is outside of what the program could read
 */
export function endedFiles(root: string, folders: readonly string[], isAlone = false): EndedFiles {
  const partsOf = (path: string): string[] => [...folders, ...path.split('/').filter((part) => part !== '')];
  return {
    open: async (path) => {
      const parts = partsOf(path);
      const file = await unlessMissing(openFileBelow(root, parts.slice(0, -1), parts.at(-1) ?? ''));
      if (file === null) return null;
      const found = await file.stat();
      // One with a second name may be a file of the host.
      if (!found.isFile() || (found.nlink > 1 && !isAlone)) {
        await file.close();
        return null;
      }
      return { bytes: found.size, content: file.createReadStream({ highWaterMark: 2 ** 18 }) };
    },
    list: (folder) => regularFiles(root, partsOf(folder), ''),
  };
}

/** @param prefix of the paths that are given */
async function* regularFiles(root: string, parts: readonly string[], prefix: string): AsyncGenerator<string> {
  const folder = await unlessMissing(openFolderBelow(root, parts));
  if (folder === null) return;
  const entries = await entriesOf(folder);
  for (const entry of entries) {
    if (entry.isFile()) yield `${prefix}${entry.name}`;
    if (entry.isDirectory()) yield* regularFiles(root, [...parts, entry.name], `${prefix}${entry.name}/`);
  }
}

async function entriesOf(folder: FileHandle) {
  try {
    return (await readdir(pathOf(folder), { withFileTypes: true })).toSorted((a, b) =>
      a.name < b.name ? -1 : 1,
    );
  } finally {
    await folder.close();
  }
}

/** @returns null when there is nothing of that kind, also behind a link, or the program has forbidden to read it */
async function unlessMissing<T>(opening: Promise<T>): Promise<T | null> {
  try {
    return await opening;
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EACCES', 'ENAMETOOLONG'].includes(errorCode(error)))
      return null;
    throw error;
  }
}
