import type { Setting } from '@longshore/common/settings/setting';
import {
  matching,
  partsOf,
  within,
  type SettingsReader,
  type SettingValue,
} from '@longshore/common/settings/settings-reader';

/** Tools that the job script knows, beside scripts of the operator. */
export const CONTAINER_TOOLS = ['apptainer', 'enroot', 'charliecloud', 'runc'] as const;

export type ContainerTool = (typeof CONTAINER_TOOLS)[number] | { readonly script: string };

/** Settings of the runtime `slurm`, in the order in which help shows them. */
export const SLURM_SETTINGS = [
  {
    field: 'slurmDir',
    env: 'SERVICE_WORKER_SLURM_DIR',
    flag: 'slurm-dir',
    kind: 'text',
    allowed: 'an absolute path of letters, digits and . _ / -',
    description: 'Folder for the files of jobs, which the nodes see under the same path. Required for slurm.',
  },
  {
    field: 'slurmContainer',
    env: 'SERVICE_WORKER_SLURM_CONTAINER',
    flag: 'slurm-container',
    kind: 'text',
    allowed: `${CONTAINER_TOOLS.join(', ')} or the absolute path of a script`,
    description: 'What executes containers on the nodes. Required for slurm.',
  },
  {
    field: 'slurmImages',
    env: 'SERVICE_WORKER_SLURM_IMAGES',
    flag: 'slurm-images',
    kind: 'text',
    allowed: 'an absolute path of letters, digits and . _ / -',
    description:
      'Folder of the images of charliecloud and runc, one folder each; the nodes see it under the same path.',
  },
  {
    field: 'slurmScratch',
    env: 'SERVICE_WORKER_SLURM_SCRATCH',
    flag: 'slurm-scratch',
    kind: 'text',
    allowed: 'an absolute path of letters, digits and . _ / -, or TMPDIR',
    description:
      "Folder of each node for empty folders of runs (`scratch_mb`), or TMPDIR for that of the job's variable; when unset, runs have none.",
  },
  {
    field: 'slurmPartitions',
    env: 'SERVICE_WORKER_SLURM_PARTITIONS',
    flag: 'slurm-partitions',
    kind: 'text',
    allowed: 'a comma-separated list of names of partitions',
    description: "Partitions of the jobs; when unset, Slurm's default partition.",
  },
  {
    field: 'slurmAccount',
    env: 'SERVICE_WORKER_SLURM_ACCOUNT',
    flag: 'slurm-account',
    kind: 'text',
    allowed: 'a name of letters, digits and . _ -',
    description: 'Account of the jobs.',
  },
  {
    field: 'slurmQos',
    env: 'SERVICE_WORKER_SLURM_QOS',
    flag: 'slurm-qos',
    kind: 'text',
    allowed: 'a name of letters, digits and . _ -',
    description: 'Quality of service of the jobs.',
  },
  {
    field: 'slurmTimeLimit',
    env: 'SERVICE_WORKER_SLURM_TIME',
    flag: 'slurm-time',
    kind: 'integer',
    allowed: 'an integer of minutes from 1 to 525600',
    description: "Time limit of the jobs in minutes; when unset, the partition's.",
  },
  {
    field: 'slurmFeatures',
    env: 'SERVICE_WORKER_SLURM_FEATURES',
    flag: 'slurm-features',
    kind: 'text',
    allowed: 'a comma-separated list of TAG=FEATURE',
    description: 'Tags that the launcher announces, and the features of nodes that they stand for.',
  },
  {
    field: 'slurmGpus',
    env: 'SERVICE_WORKER_SLURM_GPUS',
    flag: 'slurm-gpus',
    kind: 'text',
    allowed: 'a comma-separated list of TYPE=VRAM_MB; the type gpu stands for GPUs without a type',
    description: 'Types of the GPUs (GRES) of the cluster with their memory in MB; when unset, no GPUs.',
  },
  {
    field: 'slurmArgs',
    env: 'SERVICE_WORKER_SLURM_ARGS',
    flag: 'slurm-args',
    kind: 'text',
    allowed: 'words --NAME or --NAME=VALUE, separated by spaces, without those that the launcher sets',
    description: 'Further arguments of sbatch.',
  },
  {
    field: 'slurmPollSeconds',
    env: 'SERVICE_WORKER_SLURM_POLL',
    flag: 'slurm-poll',
    kind: 'number',
    default: '2',
    allowed: 'a number of seconds from 0.2 to 300',
    description: 'Seconds between two squeue.',
  },
] as const satisfies readonly Setting[];

export type SlurmSettingField = (typeof SLURM_SETTINGS)[number]['field'];

export interface SlurmSettings {
  /** Null: not set, which only another runtime allows. */
  readonly dir: string | null;
  /** A tool, or the absolute path of a script. Null: not set, as above. */
  readonly container: ContainerTool | null;
  readonly imagesDir: string | null;
  /** Folder of the nodes for empty folders of runs; TMPDIR: that of the job's variable. Null: runs have none. */
  readonly scratchDir: string | null;
  /** Empty: the default partition. */
  readonly partitions: readonly string[];
  readonly account: string | null;
  readonly qos: string | null;
  /** In minutes. */
  readonly timeLimit: number | null;
  /** Features of nodes by tag. */
  readonly features: ReadonlyMap<string, string>;
  /** Memory in MB by type of GRES. */
  readonly gpus: ReadonlyMap<string, number>;
  /** Further arguments of sbatch. */
  readonly args: readonly string[];
  readonly pollSeconds: number;
}

/** Also what the job script may hold between single quotes. */
const PATH = /^\/[A-Za-z0-9._/-]{0,500}$/;
const SCRATCH = /^(?:TMPDIR|\/[A-Za-z0-9._/-]{0,500})$/;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const MAX_ENTRIES = 100;

/** Arguments that the launcher sets itself, or that would hide its jobs from it or submit several. */
const OWN_ARGUMENTS = (
  'array chdir clusters cluster comment cpus-per-task error export export-file get-user-env gres input job-name mem no-requeue ' +
  'nodes ntasks open-mode output parsable requeue test-only uid wait wrap'
).split(' ');

/** Reads the settings; the reader collects what is refused. */
export function readSlurmSettings(reader: SettingsReader<SlurmSettingField>): SlurmSettings {
  return {
    dir: reader.read('slurmDir', matching(PATH), null),
    container: reader.read('slurmContainer', parseContainer, null),
    imagesDir: reader.read('slurmImages', matching(PATH), null),
    scratchDir: reader.read('slurmScratch', matching(SCRATCH), null),
    partitions: reader.read('slurmPartitions', parseNames, []),
    account: reader.read('slurmAccount', matching(NAME), null),
    qos: reader.read('slurmQos', matching(NAME), null),
    timeLimit: reader.read('slurmTimeLimit', within(1, 525_600), null),
    features: reader.read('slurmFeatures', parseFeatures, new Map<string, string>()),
    gpus: reader.read('slurmGpus', parseGpus, new Map<string, number>()),
    args: reader.read('slurmArgs', parseArguments, []),
    pollSeconds: reader.read('slurmPollSeconds', within(0.2, 300), 2),
  };
}

/** Tools whose images are folders below SERVICE_WORKER_SLURM_IMAGES. */
export function hasImageFolders(tool: ContainerTool): boolean {
  return tool === 'charliecloud' || tool === 'runc';
}

/** Why a launcher cannot start with the settings; empty: it can. */
export function placeProblems({ dir, container: tool, imagesDir, gpus }: SlurmSettings): readonly string[] {
  return [
    ...(dir === null ? ['SERVICE_WORKER_SLURM_DIR must be set for the runtime slurm'] : []),
    ...(tool === null ? ['SERVICE_WORKER_SLURM_CONTAINER must be set for the runtime slurm'] : []),
    ...(tool !== null && hasImageFolders(tool) && imagesDir === null
      ? ['SERVICE_WORKER_SLURM_IMAGES must be set for charliecloud and runc']
      : []),
    ...(tool === 'runc' && gpus.size > 0
      ? ['SERVICE_WORKER_SLURM_GPUS must not be set for runc, which gives containers no GPU']
      : []),
  ];
}

function parseContainer(value: SettingValue): ContainerTool | undefined {
  const text = String(value);
  const tool = CONTAINER_TOOLS.find((name) => name === text);
  if (tool !== undefined) return tool;
  return PATH.test(text) ? { script: text } : undefined;
}

function parseNames(value: SettingValue): readonly string[] | undefined {
  const names = partsOf(value);
  return names.length > 0 && names.every((name) => NAME.test(name)) ? names : undefined;
}

function parseFeatures(value: SettingValue): ReadonlyMap<string, string> | undefined {
  return parsePairs(value, (tag, feature) => {
    const isTag = tag.length <= 128 && !/\p{Cc}/u.test(tag);
    return isTag && NAME.test(feature) ? feature : undefined;
  });
}

function parseGpus(value: SettingValue): ReadonlyMap<string, number> | undefined {
  return parsePairs(value, (type, vram) =>
    NAME.test(type) && /^[1-9][0-9]{0,8}$/.test(vram) ? Number(vram) : undefined,
  );
}

function parsePairs<T>(
  value: SettingValue,
  parse: (name: string, text: string) => T | undefined,
): ReadonlyMap<string, T> | undefined {
  const found = new Map<string, T>();
  for (const part of partsOf(value)) {
    const at = part.lastIndexOf('=');
    const parsed = at > 0 ? parse(part.slice(0, at).trim(), part.slice(at + 1).trim()) : undefined;
    if (parsed === undefined || found.size === MAX_ENTRIES) return undefined;
    found.set(part.slice(0, at).trim(), parsed);
  }
  return found.size > 0 ? found : undefined;
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
