import { posix } from 'node:path';
import { isPattern, type RunArtifacts } from '../service-api/run-artifacts.js';
import { parsePattern } from './pattern.js';

/** The folders in which a run leaves what it gives. */
export function foldersOf(artifacts: RunArtifacts | undefined): string[] {
  const folders = Object.values(artifacts?.out ?? {}).map(({ path }) =>
    isPattern(path) ? parsePattern(path).folder : posix.dirname(path),
  );
  return [...new Set(folders)].toSorted();
}
