import { matching, within, type SettingValue } from '@longshore/common/settings/settings-reader';
import { CONTAINER_SETTINGS } from './container-settings.js';
import { FILE_SETTINGS } from './file-settings.js';
import { NO_VOLUMES, parseVolumes, type OfferedVolumes } from './volumes.js';
import {
  imagePatterns,
  integer,
  isTag,
  listOf,
  number,
  oneOf,
  optional,
  path,
  text,
  uniqueMapOf,
} from './setting-table.js';

/** The service allows `/` as well. Proxies that decode %2F in paths answer 404 to its claims, but not to its heartbeats. */
const WORKER_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
/** The form that runs give their user in, or `nonroot`. */
const CONTAINER_USER = /^(?:nonroot|(?:0|[1-9][0-9]{0,8})(?::(?:0|[1-9][0-9]{0,8}))?)$/;
/** In the network of the host, a run reaches what listens on loopback addresses. */
const NETWORK = /^(?!host$)[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
/** As the option `network` of a run: `none` is always there, `host` never. */
const NETWORK_NAME = /^(?!(?:none|host)$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const DEPLOYMENT = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;
const DAY_MS = 86_400_000;
const GB = 1_000_000_000;
const LOG_LEVELS = new Map([
  ['debug', 'debug'],
  ['info', 'info'],
  ['warning', 'warn'],
  ['error', 'error'],
] as const);

/** Settings of all runtimes. */
export const COMMON_SETTINGS = {
  serviceUrl: text(
    'SERVICE_URL',
    {
      default: 'http://127.0.0.1:5555',
      allowed: 'an http:// or https:// URL without user name, query and fragment',
      check: parseServiceUrl,
    },
    'Address of the service.',
  ),
  apiKey: {
    field: 'SERVICE_API_KEY',
    env: 'SERVICE_API_KEY',
    kind: 'text',
    required: true,
    allowed: 'an API key with the scope worker, in visible ASCII characters',
    check: matching(/^[\x21-\x7e]+$/),
    description: 'API key that the worker sends.',
  } as const,
  workerId: optional(
    'SERVICE_WORKER_ID',
    {
      allowed: '1 to 128 characters of A-Z a-z 0-9 . _ - :, the first one a letter or digit',
      check: matching(WORKER_ID),
    },
    'Id of the worker; when unset, the name of the machine and a suffix that is kept in SERVICE_WORKER_STATE_DIR.',
  ),
  stateDir: path(
    'SERVICE_WORKER_STATE_DIR',
    'Folder with the suffix of the id and the locks of ids in use; when unset, longshore-worker in $XDG_STATE_HOME or ~/.local/state.',
  ),
  cpuCores: integer(
    'SERVICE_WORKER_CPU',
    { min: 1, max: 65_536, default: null },
    'CPU cores that this worker offers to runs; when unset, those of the machine, or what the cluster could give now.',
  ),
  ramMb: integer(
    'SERVICE_WORKER_RAM_MB',
    { min: 1, max: 2 ** 31 - 1, default: null },
    'Memory in MB that this worker offers to runs; when unset, that of the machine, or what the cluster could give now.',
  ),
  gpuIds: optional(
    'SERVICE_WORKER_GPUS',
    {
      allowed: 'none, or a comma-separated list of indices of GPUs, as nvidia-smi shows them',
      check: parseGpuIds,
    },
    'GPUs that this worker offers to runs; when unset, all of the machine.',
  ),
  needsRamLimit: {
    ...text(
      'SERVICE_WORKER_REQUIRE_RAM_LIMIT',
      {
        default: 'false',
        allowed: 'true or false',
        check: (value) => (typeof value === 'boolean' ? value : undefined),
      },
      'Whether the worker offers no memory, and so takes no run with ram_mb, while its container engine discards limits of memory.',
    ),
    kind: 'boolean',
  } as const,
  tags: text<readonly string[]>(
    'SERVICE_WORKER_TAGS',
    {
      allowed: 'a comma-separated list of up to 100 tags of up to 128 characters',
      check: (value) => {
        const tags = listOf(100, (tag) => (isTag(tag) ? tag : undefined))(value);
        return tags && [...new Set(tags)];
      },
      unset: [],
    },
    'Tags of the worker, separated by commas.',
  ),
  tickSeconds: number(
    'SERVICE_WORKER_TICK',
    { min: 0.05, max: 3600, default: 2, of: 'seconds' },
    'Seconds between two claims, and between two heartbeats or polls of a run where the service cannot hold them.',
  ),
  runtime: text(
    'SERVICE_WORKER_RUNTIME',
    {
      default: 'docker',
      allowed: 'docker, process, kubernetes or slurm',
      check: oneOf('docker', 'process', 'kubernetes', 'slurm'),
    },
    'How images are executed: on this machine in containers (docker) or as plain processes without isolation (process), or as jobs of a cluster (kubernetes, slurm).',
  ),
  imagesDir: path('SERVICE_WORKER_IMAGES_DIR', 'Folder of the images of the runtime process.'),
  allowedImages: optional(
    'SERVICE_WORKER_IMAGES',
    {
      allowed: 'a comma-separated list of up to 100 patterns such as ghcr.io/acme/*',
      check: imagePatterns,
    },
    'Images that the worker runs, except by the runtime process: REGISTRY/PATH without tag, with * for any text, such as docker.io/library/*; when unset, all.',
  ),
  localRegistries: {
    ...text(
      'SERVICE_WORKER_LOCAL_REGISTRIES',
      {
        default: 'false',
        allowed: 'true or false',
        check: (value) => (typeof value === 'boolean' ? value : undefined),
      },
      'Whether images may come from registries at loopback and link-local addresses.',
    ),
    kind: 'boolean',
  } as const,
  registryLogins: path(
    'SERVICE_WORKER_REGISTRY_LOGINS',
    'File with logins at registries, as docker login writes it (~/.docker/config.json), for images of runs without image_pull_secret; used by the runtime docker. All runs may then use these images. When unset, no logins.',
  ),
  pullSilenceSeconds: number(
    'SERVICE_WORKER_PULL_SILENCE',
    { min: 0, max: 86_400, default: 0, of: 'seconds' },
    'Seconds after which a pull is given up that reports nothing, although the container engine answers. 0: never.',
  ),
  maxImageAgeMs: {
    ...number(
      'SERVICE_WORKER_IMAGE_DAYS',
      { min: 0, max: 36_500, default: 7, of: 'days' },
      'Days without use after which the runtime docker removes an image that it has pulled. With 0, age removes none.',
    ),
    check: limitOf(36_500, DAY_MS),
  },
  maxImageBytes: {
    ...number(
      'SERVICE_WORKER_IMAGE_GB',
      { min: 0, max: 1_000_000, default: 50, of: 'GB (10^9 bytes)' },
      'Size of all images that the runtime docker has pulled; beyond it, those used least recently are removed. With 0, size removes none.',
    ),
    check: limitOf(1_000_000, GB),
  },
  ...FILE_SETTINGS,
  network: text(
    'SERVICE_WORKER_NETWORK',
    {
      default: 'longshore',
      allowed: 'a name of a network of 1 to 128 characters of A-Z a-z 0-9 . _ -, not host',
      check: matching(NETWORK),
    },
    "Network of the runtime docker's containers: longshore, which it creates, without traffic between containers; bridge, the default one of the engine; none; or any other that exists.",
  ),
  networks: text<ReadonlyMap<string, string>>(
    'SERVICE_WORKER_NETWORKS',
    {
      allowed:
        'a comma-separated list of up to 100 entries NAME=NETWORK, without the names none and host and the network host',
      check: uniqueMapOf(100, parseNetwork),
      unset: new Map(),
    },
    "Networks that runs may choose by name (their option `network`), each with the engine's network of the runtime docker.",
  ),
  volumes: text<OfferedVolumes>(
    'SERVICE_WORKER_VOLUMES',
    {
      allowed:
        'a comma-separated list of up to 100 entries NAME=FOLDER or NAME=docker-volume:VOLUME (docker), NAME=pvc:CLAIM (kubernetes), NAME=FOLDER (slurm), each with :ro at the end if wanted',
      check: parseVolumes,
      unset: NO_VOLUMES,
    },
    'Volumes that runs may mount by name (their option `mounts`): absolute paths of folders of the host or volumes of Docker, claims of Kubernetes, or folders of the nodes of Slurm; with :ro, runs only read.',
  ),
  containerUser: optional(
    'SERVICE_WORKER_USER',
    {
      allowed: 'a number of a user, numbers of user and group such as 1000:1000, or nonroot',
      check: containerUser,
    },
    'User of every container of the runtime docker, in place of that of the run or the image, with the group of the same number unless there is another; nonroot: a run whose user is 0, or no number, fails.',
  ),
  ...CONTAINER_SETTINGS,
  pids: integer(
    'SERVICE_WORKER_PIDS',
    { min: 64, max: 4_194_304, default: null },
    'Processes and threads that one container of the runtime docker may have; when unset, 1024 and 256 for each CPU of the run, or of the machine if the run has no limit.',
  ),
  maxEvents: integer(
    'SERVICE_WORKER_MAX_EVENTS',
    { min: 0, max: 1_000_000, default: 10_000 },
    'Events of one attempt that are forwarded from its log; further ones are dropped.',
  ),
  maxEventBytes: integer(
    'SERVICE_WORKER_MAX_EVENT_BYTES',
    { min: 0, max: 2 ** 30, default: 8 * 2 ** 20 },
    'Bytes of the lines of these events; further events are dropped.',
  ),
  eventRate: number(
    'SERVICE_WORKER_EVENT_RATE',
    { min: 0.1, max: 100_000, default: 100 },
    'Events per second that are forwarded for one run; a container that prints more waits.',
  ),
  maxAnswerBytes: integer(
    'SERVICE_WORKER_MAX_ANSWER_BYTES',
    { min: 65_536, max: 2 ** 30, default: 64 * 2 ** 20 },
    'Bytes of one answer of the service that are read.',
  ),
  drainSeconds: number(
    'SERVICE_WORKER_DRAIN',
    { min: 0, max: 86_400, default: 30, of: 'seconds' },
    'Seconds that runs may continue when the worker shuts down.',
  ),
  awaySeconds: integer(
    'SERVICE_WORKER_AWAY_S',
    { min: 1, max: 86_400, default: 600 },
    'Seconds for which the service is asked to leave the runs to the next process of the worker, when this one ends and they go on; the service may allow less.',
  ),
  workerTimeoutSeconds: {
    ...number(
      'SERVICE_WORKER_TIMEOUT',
      { min: 0.1, max: 86_400, default: 60, of: 'seconds' },
      'Seconds without a heartbeat after which a worker is stale, until the service sends its own value.',
    ),
    flag: 'worker-timeout',
  },
  maxRuns: integer(
    'SERVICE_WORKER_MAX_RUNS',
    { min: 1, max: 1024, default: null },
    'Runs at the same time; when unset, as many as the resources allow, and at most 1000 (also the limit in a cluster).',
  ),
  exitIdleSeconds: number(
    'SERVICE_WORKER_EXIT_IDLE',
    { min: 0, max: 31_536_000, default: 0, of: 'seconds' },
    'Seconds without a run after which the worker ends with exit code 0; up to 20 seconds later if it claims. 0: never.',
  ),
  maxTotal: integer(
    'SERVICE_WORKER_MAX_TOTAL',
    { min: 0, max: 1_000_000, default: 0 },
    'Runs that the worker claims in all; when they have ended, it ends with exit code 0. 0: no limit.',
  ),
  deployment: text(
    'SERVICE_WORKER_DEPLOYMENT',
    {
      default: 'longshore',
      allowed: '1 to 40 characters of a-z 0-9 -, the first and the last one a letter or digit',
      check: matching(DEPLOYMENT),
    },
    'Name on all jobs in a cluster: launchers with the same one see, and end, the jobs of each other.',
  ),
  maxPending: integer(
    'SERVICE_WORKER_MAX_PENDING',
    { min: 1, max: 1000, default: 10 },
    'Jobs of this launcher that may wait in the cluster; it claims no more runs until one has started.',
  ),
  healthFile: path(
    'SERVICE_WORKER_HEALTH_FILE',
    'File that holds the time until which the worker counts as active.',
  ),
  logLevel: text(
    'SERVICE_LOG_LEVEL',
    {
      default: 'info',
      allowed: 'debug, info, warning or error',
      check: (value) => [...LOG_LEVELS].find(([name]) => name === value)?.[1],
    },
    'Lowest level that is logged.',
  ),
};

/** 0: no limit. */
function limitOf(max: number, unit: number): (value: SettingValue) => number | undefined {
  return (value) => {
    const count = within(0, max)(value);
    return count === 0 ? Infinity : count === undefined ? undefined : count * unit;
  };
}

function parseServiceUrl(value: SettingValue): string | undefined {
  const given = String(value);
  if (!URL.canParse(given)) return undefined;
  const url = new URL(given);
  const isPlain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!isPlain || !['http:', 'https:'].includes(url.protocol)) return undefined;
  return url.href.replace(/\/+$/, '');
}

function parseGpuIds(value: SettingValue): readonly number[] | undefined {
  if (value === 'none') return [];
  const ids = listOf(Infinity, matching(/^[0-9]{1,5}$/))(value);
  return ids && [...new Set(ids.map(Number))];
}

function parseNetwork(entry: string): readonly [string, string] | undefined {
  const [name = '', network = '', ...rest] = entry.split('=');
  const isFine = NETWORK_NAME.test(name) && NETWORK.test(network) && rest.length === 0;
  return isFine ? [name, network] : undefined;
}

/** A user with a group: without one the engine takes the groups that the image wants. */
function containerUser(value: SettingValue): string | undefined {
  const user = matching(CONTAINER_USER)(value);
  return user !== undefined && /^\d+$/.test(user) ? `${user}:${user}` : user;
}
