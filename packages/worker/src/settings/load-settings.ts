import {
  matching,
  partsOf,
  SettingsReader,
  within,
  type SettingValue,
} from '@longshore/common/settings/settings-reader';
import { readKubernetesSettings, type KubernetesSettings } from './kubernetes-settings.js';
import { readSlurmSettings, type SlurmSettings } from './slurm-settings.js';
import { NO_VOLUMES, parseVolumes, volumesProblem, type OfferedVolumes } from '../runtime/volumes.js';
import type { ImageBudget } from '../runtime/docker/images/image-store.js';
import { WORKER_SETTINGS, type WorkerSettingField } from './worker-settings.js';

/** The cluster to which runs are submitted. */
export type EngineSettings =
  | { readonly name: 'kubernetes'; readonly settings: KubernetesSettings }
  | { readonly name: 'slurm'; readonly settings: SlurmSettings };

export interface WorkerSettings {
  /** Without a slash at the end. */
  readonly serviceUrl: string;
  readonly apiKey: string;
  /** Null: chosen by the worker. */
  readonly workerId: string | null;
  /** Folder of the locks of ids; null: one of the user. */
  readonly stateDir: string | null;
  /** What the worker offers of this machine; null: all. */
  readonly cpuCores: number | null;
  readonly ramMb: number | null;
  readonly gpuIds: readonly number[] | null;
  readonly tags: readonly string[];
  readonly tickSeconds: number;
  /** How this machine executes runs; null: a cluster executes them. */
  readonly runtime: 'docker' | 'process' | null;
  /** Null: runs are executed on this machine. */
  readonly engine: EngineSettings | null;
  /** Folder of the images of the runtime `process`. */
  readonly imagesDir: string | null;
  /** Patterns of images that may run; null: all. */
  readonly allowedImages: readonly string[] | null;
  /** Whether registries at loopback and link-local addresses are allowed. */
  readonly localRegistries: boolean;
  /** File with logins at registries; null: none. */
  readonly registryLogins: string | null;
  /** Seconds without a report after which a pull is given up; 0: never. */
  readonly pullSilenceSeconds: number;
  /** What images that the worker pulled may use. */
  readonly imageBudget: ImageBudget;
  /** Network of containers. */
  readonly network: string;
  /** Networks of the engine by the names that runs choose them by. */
  readonly networks: ReadonlyMap<string, string>;
  /** What runs may mount. */
  readonly volumes: OfferedVolumes;
  /** User of every container, as numbers; `nonroot`: any but 0; null: that of the run or the image. */
  readonly containerUser: string | null;
  /** Processes and threads of a container; null: by the cores. */
  readonly pids: number | null;
  /** Limit of an attempt's log events. */
  readonly maxEvents: number;
  /** Limit of the bytes of their lines. */
  readonly maxEventBytes: number;
  /** Log events of a run per second. */
  readonly eventRate: number;
  /** Limit of an answer of the service, in bytes. */
  readonly maxAnswerBytes: number;
  /** Seconds that runs may continue after SIGTERM. */
  readonly drainSeconds: number;
  /** Seconds without a heartbeat after which the worker is stale, until the service sends its own value. */
  readonly workerTimeoutSeconds: number;
  /** Limit of concurrent runs; null: the number of CPU cores, and in a cluster the most that a heartbeat can list. */
  readonly maxRuns: number | null;
  /** Name on all jobs in a cluster. */
  readonly deployment: string;
  /** Limit of jobs that wait in the cluster. */
  readonly maxPending: number;
  /** File that holds the time until which the worker counts as active; null: none. */
  readonly healthFile: string | null;
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error';
}

/** The service allows `/` as well. Proxies that decode %2F in paths answer 404 to its claims, but not to its heartbeats. */
const WORKER_ID = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
/** In the network of the host, a run reaches what listens on loopback addresses. */
/** The form that runs give their user in, or `nonroot`. */
const CONTAINER_USER = /^(?:nonroot|(?:0|[1-9][0-9]{0,8})(?::(?:0|[1-9][0-9]{0,8}))?)$/;
const NETWORK = /^(?!host$)[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
/** As the option `network` of a run: `none` is always there, `host` never. */
const NETWORK_NAME = /^(?!(?:none|host)$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const DAY_MS = 86_400_000;
const GB = 1_000_000_000;
const DEPLOYMENT = /^[a-z0-9](?:[a-z0-9-]{0,38}[a-z0-9])?$/;
const LOG_LEVELS: ReadonlyMap<string, WorkerSettings['logLevel']> = new Map([
  ['debug', 'debug'],
  ['info', 'info'],
  ['warning', 'warn'],
  ['error', 'error'],
]);

/**
 * Reads the settings from flags and environment variables.
 * @throws SettingsError with a line for every wrong setting
 */
export function loadWorkerSettings(
  argv: readonly string[],
  env: Readonly<NodeJS.ProcessEnv>,
): WorkerSettings {
  const reader = new SettingsReader(WORKER_SETTINGS, argv, env);
  const settings: WorkerSettings = {
    serviceUrl: reader.read('serviceUrl', parseServiceUrl, ''),
    apiKey: reader.read('apiKey', matching(/^[\x21-\x7e]+$/), ''),
    workerId: reader.read('workerId', matching(WORKER_ID), null),
    stateDir: reader.read('stateDir', String, null),
    cpuCores: reader.read('cpuCores', within(1, 65_536), null),
    ramMb: reader.read('ramMb', within(1, 2 ** 31 - 1), null),
    gpuIds: reader.read('gpuIds', parseGpuIds, null),
    tags: reader.read('tags', parseTags, []),
    tickSeconds: reader.read('tickSeconds', within(0.05, 3600), 0),
    ...reader.read('runtime', (value) => parseRuntime(value, reader), { runtime: null, engine: null }),
    imagesDir: reader.read('imagesDir', String, null),
    allowedImages: reader.read('allowedImages', parsePatterns, null),
    pullSilenceSeconds: reader.read('pullSilenceSeconds', within(0, 86_400), 0),
    localRegistries: reader.read(
      'localRegistries',
      (value) => (typeof value === 'boolean' ? value : undefined),
      false,
    ),
    registryLogins: reader.read('registryLogins', String, null),
    imageBudget: {
      maxAgeMs: reader.read('imageDays', limitOf(36_500, DAY_MS), Infinity),
      maxBytes: reader.read('imageGb', limitOf(1_000_000, GB), Infinity),
    },
    network: reader.read('network', matching(NETWORK), ''),
    networks: reader.read('networks', parseNetworks, new Map<string, string>()),
    volumes: reader.read('volumes', parseVolumes, NO_VOLUMES),
    containerUser: reader.read('containerUser', matching(CONTAINER_USER), null),
    pids: reader.read('pids', within(64, 4_194_304), null),
    maxEvents: reader.read('maxEvents', within(0, 1_000_000), 0),
    maxEventBytes: reader.read('maxEventBytes', within(0, 2 ** 30), 0),
    eventRate: reader.read('eventRate', within(0.1, 100_000), 0),
    maxAnswerBytes: reader.read('maxAnswerBytes', within(65_536, 2 ** 30), 0),
    drainSeconds: reader.read('drainSeconds', within(0, 86_400), 0),
    workerTimeoutSeconds: reader.read('workerTimeoutSeconds', within(0.1, 86_400), 0),
    maxRuns: reader.read('maxRuns', within(1, 1024), null),
    deployment: reader.read('deployment', matching(DEPLOYMENT), ''),
    maxPending: reader.read('maxPending', within(1, 1000), 0),
    healthFile: reader.read('healthFile', String, null),
    logLevel: reader.read('logLevel', (text) => LOG_LEVELS.get(String(text)), 'info'),
  };
  const { engine, workerId, gpuIds, volumes } = settings;
  const unfit = volumesProblem(volumes, engine?.name ?? settings.runtime ?? 'docker');
  if (unfit !== null) reader.refuse('volumes', unfit);
  if (engine !== null) {
    if (workerId === null)
      reader.refuse(
        'workerId',
        `with the runtime ${engine.name}, jobs are found again by it after a restart`,
      );
    if (gpuIds !== null) reader.refuse('gpuIds', `with the runtime ${engine.name}, the cluster assigns GPUs`);
  }
  reader.throwIfRefused();
  return settings;
}

/** 0: no limit. */
function limitOf(max: number, unit: number): (value: SettingValue) => number | undefined {
  return (value) => {
    const count = within(0, max)(value);
    return count === 0 ? Infinity : count === undefined ? undefined : count * unit;
  };
}

function parseServiceUrl(value: SettingValue): string | undefined {
  const text = String(value);
  if (!URL.canParse(text)) return undefined;
  const url = new URL(text);
  const isPlain = url.username === '' && url.password === '' && url.search === '' && url.hash === '';
  if (!isPlain || !['http:', 'https:'].includes(url.protocol)) return undefined;
  return url.href.replace(/\/+$/, '');
}

/** An empty list would allow nothing, and an image name has no other characters. */
function parsePatterns(value: SettingValue): readonly string[] | undefined {
  const patterns = partsOf(value);
  const isFine =
    patterns.length > 0 &&
    patterns.length <= 100 &&
    patterns.every((pattern) => /^[A-Za-z0-9._:/[\]*-]{1,255}$/.test(pattern));
  return isFine ? patterns : undefined;
}

function parseGpuIds(value: SettingValue): readonly number[] | undefined {
  if (value === 'none') return [];
  const ids = partsOf(value);
  const isFine = ids.length > 0 && ids.every((id) => /^[0-9]{1,5}$/.test(id));
  return isFine ? [...new Set(ids.map(Number))] : undefined;
}

function parseTags(value: SettingValue): readonly string[] | undefined {
  const tags = partsOf(value);
  const isFine = tags.length <= 100 && tags.every((tag) => tag.length <= 128 && !/\p{Cc}/u.test(tag));
  return isFine ? [...new Set(tags)] : undefined;
}

function parseNetworks(value: SettingValue): ReadonlyMap<string, string> | undefined {
  const entries = partsOf(value).map((entry) => entry.split('='));
  const networks = new Map(entries.map(([name = '', network = '']) => [name, network]));
  const isFine =
    entries.length <= 100 &&
    networks.size === entries.length &&
    entries.every(
      ([name = '', network = '', ...rest]) =>
        NETWORK_NAME.test(name) && NETWORK.test(network) && rest.length === 0,
    );
  return isFine ? networks : undefined;
}

function parseRuntime(
  value: SettingValue,
  reader: SettingsReader<WorkerSettingField>,
): Pick<WorkerSettings, 'runtime' | 'engine'> | undefined {
  const name = String(value);
  switch (name) {
    case 'docker':
    case 'process':
      return { runtime: name, engine: null };
    case 'kubernetes':
      return { runtime: null, engine: { name, settings: readKubernetesSettings(reader) } };
    case 'slurm':
      return { runtime: null, engine: { name, settings: readSlurmSettings(reader) } };
    default:
      return undefined;
  }
}
