import { posix } from 'node:path';
import { isPattern } from '@longshore/common/path-parts';
import type { RunArtifacts } from '../service-api/run-artifacts.js';

/** A pattern of paths: `*` and `?` within a part, `**` for any number of parts. */
export interface PathPattern {
  /** The last folder before the first part that is no plain name. */
  readonly folder: string;
  /** @param path relative to the folder */
  readonly matches: (path: string) => boolean;
}

/** @param path absolute, with a pattern */
export function parsePattern(path: string): PathPattern {
  const parts = path.split('/').slice(1);
  const first = parts.findIndex(isPattern);
  const pattern = parts.slice(first);
  return {
    folder: `/${parts.slice(0, first).join('/')}`,
    matches: (relative) => fitsAll(pattern, relative.split('/'), PARTS),
  };
}

/** The folders in which a run leaves what it gives. */
export function targetFolders(artifacts: RunArtifacts | undefined): string[] {
  const folders = Object.values(artifacts?.out ?? {}).map(({ path }) =>
    isPattern(path) ? parsePattern(path).folder : posix.dirname(path),
  );
  return [...new Set(folders)].toSorted();
}

const PARTS: PartRules<string, string> = { isAny: (part) => part === '**', fits: fitsPart };

function fitsPart(pattern: string, name: string): boolean {
  return fitsAll([...pattern], [...name], CHARACTERS);
}

const CHARACTERS: PartRules<string, string> = {
  isAny: (character) => character === '*',
  fits: (wanted, given) => wanted === '?' || wanted === given,
};

interface PartRules<P, T> {
  /** Whether an element of a pattern stands for any number of items. */
  readonly isAny: (pattern: P) => boolean;
  readonly fits: (pattern: P, item: T) => boolean;
}

/** In time that grows with the product of both lengths, at most: only the last of several `any` is tried again. */
function fitsAll<P, T>(
  pattern: readonly P[],
  items: readonly T[],
  { isAny, fits }: PartRules<P, T>,
): boolean {
  let at = 0;
  let any = -1;
  let tried = 0;
  for (let index = 0; index < items.length;) {
    const [wanted] = pattern.slice(at, at + 1);
    const [item] = items.slice(index, index + 1);
    if (at < pattern.length && wanted !== undefined && isAny(wanted)) {
      any = at;
      tried = index;
      at += 1;
    } else if (wanted !== undefined && item !== undefined && fits(wanted, item)) {
      at += 1;
      index += 1;
    } else if (any >= 0) {
      at = any + 1;
      tried += 1;
      index = tried;
    } else return false;
  }
  return pattern.slice(at).every(isAny);
}
