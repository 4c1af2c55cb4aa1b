import { posix } from 'node:path';

/** Folder of the input and the output file inside a container. */
export const CONTAINER_FOLDER = '/longshore';

/** Folders of a container that the engine makes anew. */
export const SYSTEM_FOLDERS = ['/dev', '/proc', '/sys'] as const;

/** Whether a path is another one or in it. Both are absolute and normalised. */
export function isWithin(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other}/`);
}

/**
 * Why nothing of a run or of an image may be put at a place of a container, in words that follow the path; null: it may.
 * @param place path that passes no link: look the links up before
 */
export function placeProblem(place: string): string | null {
  if (!posix.isAbsolute(place) || posix.normalize(place) !== place || (place !== '/' && place.endsWith('/')))
    return 'is no absolute path in its shortest form';
  if (place === '/') return 'is the root of the container';
  const reserved = [...SYSTEM_FOLDERS, CONTAINER_FOLDER].find((folder) => isWithin(place, folder));
  return reserved === undefined ? null : `is in ${reserved}`;
}
