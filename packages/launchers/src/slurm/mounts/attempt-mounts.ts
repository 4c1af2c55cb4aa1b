import type { JobSpec } from '../../launcher/engine.js';
import { RunFault } from '@longshore/worker/runtime/runtime';
import type { OfferedVolumes } from '@longshore/worker/runtime/volumes';
import { hasImageFolders, type ContainerTool } from '@longshore/worker/settings/slurm-settings';

/** Folder of an attempt in which its job has the mounts, by their number: the container tool mounts them from there. */
export const MOUNTS_FOLDER = 'mounts';

/** What a container mounts, and from where. */
export interface AttemptMount {
  /** Name of the volume; empty: an empty folder of the node. */
  readonly volume: string;
  /** Folder of the volume on the nodes. */
  readonly source: string;
  /** Folder within the volume; empty: the whole. */
  readonly subPath: string;
  readonly mode: 'ro' | 'rw';
  /** Where the container has it. */
  readonly path: string;
}

/** Separators and variables of the lists that these tools take mounts in. */
const PLAIN_PATH = /^[A-Za-z0-9/._@+=-]+$/;

/**
 * The mounts of an attempt, as its job makes them.
 * @throws RunFault when the container tool cannot mount at a path
 * @throws Error fit for a run's error_message when the launcher does not offer a volume
 */
export function attemptMounts(
  { mounts }: Pick<JobSpec, 'mounts'>,
  tool: ContainerTool,
  offered: OfferedVolumes,
): AttemptMount[] {
  return mounts.map(({ volume = '', path, read_only: isReadOnly = false, sub_path: subPath = '' }) => {
    const problem = pathProblem(path, tool);
    if (problem !== null) throw new RunFault(`The path '${path}' of a mount cannot be used: ${problem}`);
    if (volume === '') return { volume, source: '', subPath, mode: 'rw', path };
    const found = offered.get(volume);
    if (found === undefined || (!isReadOnly && !found.isWritable))
      throw new Error(`This worker does not offer the volume '${volume}'${found ? ' for writing' : ''}`);
    return { volume, source: found.source, subPath, mode: isReadOnly ? 'ro' : 'rw', path };
  });
}

/** Why containers cannot have a mount at a path, in words; null: they can. */
function pathProblem(path: string, tool: ContainerTool): string | null {
  const isIn = (folder: string): boolean => path.startsWith(`${folder}/`);
  if (tool === 'apptainer' || tool === 'enroot')
    return PLAIN_PATH.test(path) ? null : `${tool} takes only letters, digits and . _ @ + = -`;
  if (hasImageFolders(tool) && (path === '/mnt' || isIn('/mnt')))
    return 'the container has its inputs and outputs in /mnt';
  return tool === 'charliecloud' && isIn('/tmp') ? 'charliecloud gives the container another /tmp' : null;
}
