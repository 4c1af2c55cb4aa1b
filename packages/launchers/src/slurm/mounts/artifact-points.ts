import { isWithin } from '@longshore/worker/runtime/container-places';
import { RunFault, type ArtifactPlaces } from '@longshore/worker/runtime/runtime';
import type { ContainerTool } from '@longshore/worker/settings/slurm-settings';
import type { JobSpec } from '../../launcher/engine.js';

/** What a container has of its run's files (`artifacts`), which are below a folder of the attempt by the same paths. */
export interface ArtifactPoints {
  /** Folders that are mounted, with all that is below their paths. None is in another one. */
  readonly folders: readonly string[];
  /** Files that are mounted, beside those of the folders. */
  readonly files: readonly string[];
  /** What is put below that folder. */
  readonly places: ArtifactPlaces;
  /** Files of the run that are mounted within the folders. */
  readonly inner: readonly string[];
}

type Wanted = Pick<JobSpec, 'artifacts' | 'files' | 'mounts'>;

/**
 * Where a container has what was fetched for its run, and the folders for what it leaves; null: it has neither.
 * @throws RunFault when a folder cannot be had
 */
export function artifactPoints(
  { artifacts, files, mounts }: Wanted,
  tool: ContainerTool,
): ArtifactPoints | null {
  if (artifacts === null) return null;
  const { fetched, folders } = artifacts;
  for (const folder of folders) {
    const volume = mounts.find((one) => one.volume !== undefined && isWithin(folder, one.path));
    const file = files.find(({ path }) => isWithin(folder, path));
    if (volume !== undefined) throw refused(folder, `it is in the mount '${volume.path}'`);
    if (file !== undefined) throw refused(folder, `the run has a file at '${file.path}'`);
  }
  // charliecloud gives the container another /tmp, so that only the whole of it can be mounted.
  const pointOf = (path: string): string =>
    tool === 'charliecloud' && path.startsWith('/tmp/') ? '/tmp' : path;
  const given = fetched.map(({ path, kind }) => ({
    point: pointOf(path),
    isFolder: kind === 'folder',
    path,
  }));
  const wanted = [
    ...given.filter(({ isFolder, point, path }) => isFolder || point !== path).map(({ point }) => point),
    ...folders.map(pointOf),
  ];
  const outer = wanted.filter((path) => !wanted.some((other) => other !== path && isWithin(path, other)));
  const isInner = (path: string): boolean => outer.some((folder) => isWithin(path, folder));
  return {
    folders: [...new Set(outer)],
    files: given.filter(({ point, isFolder }) => !isFolder && !isInner(point)).map(({ path }) => path),
    places: { fetched, folders: [...outer, ...folders, ...mounts.map(({ path }) => path).filter(isInner)] },
    inner: files.map(({ path }) => path).filter(isInner),
  };
}

function refused(folder: string, why: string): RunFault {
  return new RunFault(`The folder '${folder}' of what the run leaves cannot be used: ${why}`);
}
