import { matching, partsOf, type SettingValue } from '@longshore/common/settings/settings-reader';
import { integer, isTag, listOf, mapOf, number, optional, text, type SettingsOf } from './setting-table.js';

/** Tools that the job script knows, beside scripts of the operator. */
export const CONTAINER_TOOLS = ['apptainer', 'enroot', 'charliecloud', 'runc'] as const;

/** A tool, or the absolute path of a script. */
export type ContainerTool = (typeof CONTAINER_TOOLS)[number] | { readonly script: string };

/** Also what the job script may hold between single quotes. */
const PATH = /^\/[A-Za-z0-9._/-]{0,500}$/;
const SCRATCH = /^(?:TMPDIR|\/[A-Za-z0-9._/-]{0,500})$/;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const MAX_ENTRIES = 100;

const A_PATH = 'an absolute path of letters, digits and . _ / -';
const A_NAME = { allowed: 'a name of letters, digits and . _ -', check: matching(NAME) };

/** Arguments that the launcher sets itself, or that would hide its jobs from it or submit several. */
const OWN_ARGUMENTS = (
  'array chdir clusters cluster comment cpus-per-task error export export-file get-user-env gres input job-name mem no-requeue ' +
  'nodes ntasks open-mode output parsable requeue test-only uid wait wrap'
).split(' ');

/** Settings of the runtime `slurm`; null: not set. */
export const SLURM_SETTINGS = {
  dir: optional(
    'SERVICE_WORKER_SLURM_DIR',
    { allowed: A_PATH, check: matching(PATH) },
    'Folder for the files of jobs, which the nodes see under the same path. Required for slurm.',
  ),
  container: optional(
    'SERVICE_WORKER_SLURM_CONTAINER',
    {
      allowed: `${CONTAINER_TOOLS.join(', ')} or the absolute path of a script`,
      check: parseContainer,
    },
    'What executes containers on the nodes. Required for slurm.',
  ),
  imagesDir: optional(
    'SERVICE_WORKER_SLURM_IMAGES',
    { allowed: A_PATH, check: matching(PATH) },
    'Folder of the images of charliecloud and runc, one folder each; the nodes see it under the same path.',
  ),
  scratchDir: optional(
    'SERVICE_WORKER_SLURM_SCRATCH',
    { allowed: `${A_PATH}, or TMPDIR`, check: matching(SCRATCH) },
    "Folder of each node for empty folders of runs (`scratch_mb`), or TMPDIR for that of the job's variable; when unset, runs have none.",
  ),
  partitions: text<readonly string[]>(
    'SERVICE_WORKER_SLURM_PARTITIONS',
    {
      allowed: 'a comma-separated list of names of partitions',
      check: listOf(Infinity, matching(NAME)),
      unset: [],
    },
    "Partitions of the jobs; when unset, Slurm's default partition.",
  ),
  account: optional('SERVICE_WORKER_SLURM_ACCOUNT', A_NAME, 'Account of the jobs.'),
  qos: optional('SERVICE_WORKER_SLURM_QOS', A_NAME, 'Quality of service of the jobs.'),
  timeLimit: integer(
    'SERVICE_WORKER_SLURM_TIME',
    { min: 1, max: 525_600, default: null, of: 'minutes' },
    "Time limit of the jobs in minutes; when unset, the partition's.",
  ),
  features: text<ReadonlyMap<string, string>>(
    'SERVICE_WORKER_SLURM_FEATURES',
    {
      allowed: 'a comma-separated list of TAG=FEATURE',
      check: mapOf(MAX_ENTRIES, (entry) => {
        const [tag, feature] = pairOf(entry);
        return isTag(tag) && NAME.test(feature) ? [tag, feature] : undefined;
      }),
      unset: new Map(),
    },
    'Tags that the launcher announces, and the features of nodes that they stand for.',
  ),
  gpus: text<ReadonlyMap<string, number>>(
    'SERVICE_WORKER_SLURM_GPUS',
    {
      allowed: 'a comma-separated list of TYPE=VRAM_MB; the type gpu stands for GPUs without a type',
      check: mapOf(MAX_ENTRIES, (entry) => {
        const [type, vram] = pairOf(entry);
        return NAME.test(type) && /^[1-9][0-9]{0,8}$/.test(vram) ? [type, Number(vram)] : undefined;
      }),
      unset: new Map(),
    },
    'Types of the GPUs (GRES) of the cluster with their memory in MB; when unset, no GPUs.',
  ),
  args: text<readonly string[]>(
    'SERVICE_WORKER_SLURM_ARGS',
    {
      allowed: 'words --NAME or --NAME=VALUE, separated by spaces, without those that the launcher sets',
      check: parseArguments,
      unset: [],
    },
    'Further arguments of sbatch.',
  ),
  pollSeconds: number(
    'SERVICE_WORKER_SLURM_POLL',
    { min: 0.2, max: 300, default: 2, of: 'seconds' },
    'Seconds between two squeue.',
  ),
};

export type SlurmSettings = SettingsOf<typeof SLURM_SETTINGS>;

/** Tools whose images are folders below SERVICE_WORKER_SLURM_IMAGES. */
export function hasImageFolders(tool: ContainerTool): boolean {
  return tool === 'charliecloud' || tool === 'runc';
}

/** Tools whose containers of root are root on the node: they write its settings below /proc/sys. */
const FOR_USERS: readonly string[] = ['apptainer', 'charliecloud'];

/**
 * Why a launcher cannot start with the settings; empty: it can.
 * @param isRoot whether jobs run as root
 */
export function placeProblems(
  { dir, container: tool, imagesDir, gpus }: SlurmSettings,
  isRoot: boolean,
): readonly string[] {
  return [
    ...(dir === null ? ['SERVICE_WORKER_SLURM_DIR must be set for the runtime slurm'] : []),
    ...(tool === null ? ['SERVICE_WORKER_SLURM_CONTAINER must be set for the runtime slurm'] : []),
    ...(tool !== null && hasImageFolders(tool) && imagesDir === null
      ? ['SERVICE_WORKER_SLURM_IMAGES must be set for charliecloud and runc']
      : []),
    ...(typeof tool === 'string' && isRoot && FOR_USERS.includes(tool)
      ? [
          `SERVICE_WORKER_SLURM_CONTAINER must not be ${tool} for a launcher of root (uid 0), whose jobs would be root on the nodes: ` +
            'start it as another user',
        ]
      : []),
    ...(tool === 'runc' && gpus.size > 0
      ? ['SERVICE_WORKER_SLURM_GPUS must not be set for runc, which gives containers no GPU']
      : []),
  ];
}

function parseContainer(value: SettingValue): ContainerTool | undefined {
  const script = String(value);
  return CONTAINER_TOOLS.find((name) => name === script) ?? (PATH.test(script) ? { script } : undefined);
}

function pairOf(entry: string): readonly [string, string] {
  const at = entry.lastIndexOf('=');
  return [entry.slice(0, Math.max(0, at)).trim(), entry.slice(at + 1).trim()];
}

/** Long options alone: another word would be the name of a script. sbatch takes the beginning of a name for the name. */
function parseArguments(value: SettingValue): readonly string[] | undefined {
  const words = partsOf(value, ' ');
  const isFine = words.every((word) => {
    const [, name = ''] = /^--([a-z][a-z-]*)(?:=.*)?$/.exec(word) ?? [];
    return name !== '' && !OWN_ARGUMENTS.some((own) => own.startsWith(name));
  });
  return isFine && words.length <= MAX_ENTRIES ? words : undefined;
}
