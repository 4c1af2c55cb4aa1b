import { stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { JobSpec } from '../../launcher/engine.js';
import { RunFault, type ContainerFile, type RuntimeLog } from '@longshore/worker/runtime/runtime';
import { isWithin, placeProblem } from '@longshore/worker/runtime/container-places';
import { offeredVolume, type OfferedVolumes } from '@longshore/worker/settings/volumes';
import { hasImageFolders, type ContainerTool } from '@longshore/worker/settings/slurm-settings';
import { SettingsError } from '@longshore/common/settings/setting';
import type { ArtifactPoints } from './artifact-points.js';

/** Folder of an attempt in which its job has mounts and files, by their number: the container tool mounts them from there. */
export const MOUNTS_FOLDER = 'mounts';

/** Stands in place of the name of a volume for a folder of the attempt, whose path is the `subPath`. */
const OWN_FOLDER = '/';

/** Where a container has a mount or a file. */
interface MountPoint {
  readonly mode: 'ro' | 'rw';
  readonly path: string;
}

/** What a container mounts, and from where. */
export interface AttemptMount extends MountPoint {
  /** Name of the volume; empty: an empty folder of the node; `/`: a folder of the run's `artifacts`. */
  readonly volume: string;
  /** Folder of the volume on the nodes. */
  readonly source: string;
  /** Folder within the volume; empty: the whole. */
  readonly subPath: string;
}

/** Separators and variables of the lists that these tools take mounts in. */
const PLAIN_PATH = /^[A-Za-z0-9/._@+=-]+$/;

/** Where a container has its mounts and files, in the order of their numbers. */
export function mountPoints(
  mounts: readonly AttemptMount[],
  files: readonly ContainerFile[],
  artifacts: ArtifactPoints | null,
): readonly MountPoint[] {
  const paths = [...files.map(({ path }) => path), ...(artifacts?.files ?? [])];
  return [...mounts, ...paths.map((path) => ({ mode: 'ro', path }) as const)];
}

/**
 * The mounts of an attempt, as its job makes them: one comes before those that are in it.
 * @throws RunFault when the container tool cannot mount at a path of a mount or file
 * @throws Error fit for a run's error_message when the launcher does not offer a volume
 */
export function attemptMounts(
  { mounts, files }: Pick<JobSpec, 'mounts' | 'files'>,
  tool: ContainerTool,
  offered: OfferedVolumes,
  artifacts: ArtifactPoints | null = null,
): AttemptMount[] {
  const { folders: own = [], files: fetched = [] } = artifacts ?? {};
  for (const path of [...[...files, ...mounts].map((one) => one.path), ...own, ...fetched]) {
    const problem = pathProblem(path, tool);
    if (problem !== null)
      throw new RunFault(`The path '${path}' of a file or mount cannot be used: ${problem}`);
  }
  const made = mounts.map((mount): AttemptMount => {
    const { volume = '', path, read_only: isReadOnly = false, sub_path: subPath = '' } = mount;
    if (volume === '') return { volume, source: '', subPath, mode: 'rw', path };
    const { source } = offeredVolume(offered, volume, isReadOnly);
    return { volume, source, subPath, mode: isReadOnly ? 'ro' : 'rw', path };
  });
  if (own.length === 0) return made;
  return [
    // What a run leaves in an empty folder is stored, so that the folder must not go with the node.
    ...made.filter(({ volume, path }) => volume !== '' || !own.some((folder) => isWithin(path, folder))),
    ...own.map((path): AttemptMount => ({ volume: OWN_FOLDER, source: '', subPath: path, mode: 'rw', path })),
  ].toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

/** Why containers cannot have a mount or file at a path, in words; null: they can. */
function pathProblem(path: string, tool: ContainerTool): string | null {
  if (placeProblem(path) !== null) return 'the container has this folder from others';
  const isIn = (folder: string): boolean => path.startsWith(`${folder}/`);
  if (tool === 'apptainer' || tool === 'enroot')
    return PLAIN_PATH.test(path) ? null : `${tool} takes only letters, digits and . _ @ + = -`;
  if (hasImageFolders(tool) && (path === '/mnt' || isIn('/mnt')))
    return 'the container has its inputs and outputs in /mnt';
  if (tool !== 'charliecloud') return null;
  if (path === '/etc/passwd' || path === '/etc/group') return 'charliecloud makes this file itself';
  return isIn('/tmp') ? 'charliecloud gives the container another /tmp' : null;
}

/**
 * Looks for the folders of the volumes as far as this machine can tell. One that would be on the file system of the jobs'
 * folder must be there; another one may be on the nodes alone.
 * @param dir folder of the jobs, which exists
 * @throws SettingsError when volumes are missing
 */
export async function checkVolumes(volumes: OfferedVolumes, dir: string, log: RuntimeLog): Promise<void> {
  const problems: string[] = [];
  for (const [volume, { source }] of volumes) {
    const found = await stat(source).catch(() => null);
    if (found?.isDirectory() === true) continue;
    if (found !== null || (await deviceAbove(source)) === (await stat(dir)).dev)
      problems.push(`SERVICE_WORKER_VOLUMES: there is no folder '${source}' for the volume '${volume}'`);
    else log.warn({ volume }, 'the volume is not on this machine: only the nodes know whether it is there');
  }
  if (problems.length > 0) throw new SettingsError(problems);
}

/** The device of the nearest folder above a path that this machine can see. */
async function deviceAbove(path: string): Promise<number> {
  const above = dirname(path);
  const found = await stat(above).catch(() => null);
  return found?.dev ?? deviceAbove(above);
}
