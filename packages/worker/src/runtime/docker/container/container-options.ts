import type Dockerode from 'dockerode';
import { FILES_ROOT } from '@longshore/common/variable-names';
import type { WorkerIdentity } from '../../../process/worker-identity.js';
import { withLimit, type EngineFeatures } from '../engine/docker-engine.js';
import { CONTAINER_FOLDER } from '../../container-places.js';
import { hasVolume, keptFolders, scratchPaths } from '../places/place-rules.js';
import { RunFault, workerEnvironment, type ContainerLimits, type ContainerSpec } from '../../runtime.js';

/** Processes and threads that one container may have at once without a setting: so many, and so many for each core. */
const PIDS = { base: 1024, perCore: 256 };

/** Engines refuse less than this. */
const SMALLEST_MEMORY_MB = 6;
const SMALLEST_CPU_MILLIS = 10;

/** Weights of CPU time: that of one core, which is also that of a container without one, and what engines take. */
const SHARES = { perCore: 1024, least: 2, most: 262_144 };

const MB = 1024 * 1024;

/** Labels of a container. */
export const WORKER_LABEL = 'longshore.worker';
export const RUN_LABEL = 'longshore.run';
export const ATTEMPT_LABEL = 'longshore.attempt';
/** Of a container: the name of its run. */
const NAME_LABEL = 'longshore.name';
/** The key of a run's label follows. */
const LABEL_PREFIX = 'longshore.label.';
/** Of a container: the names of its variables that have values of secrets, separated by commas. */
export const SECRETS_LABEL = 'longshore.secrets';
/** Of a container: the queries of the signed URLs that it finds, as a list in JSON. */
export const QUERIES_LABEL = 'longshore.signed-queries';
/** Which lock of its id the worker holds. */
export const INSTANCE_LABEL = 'longshore.instance';

/** The labels that name the owner of a container. */
export function ownerLabels({ workerId, instance }: WorkerIdentity): Readonly<Record<string, string>> {
  return { [WORKER_LABEL]: workerId, [INSTANCE_LABEL]: instance };
}

/** Restrictions of every container. */
const RESTRICTIONS = {
  CapDrop: ['ALL'],
  SecurityOpt: ['no-new-privileges'],
  RestartPolicy: { Name: 'no' },
} satisfies Dockerode.HostConfig;

/** The engine's log of a container: the newest 64 MB at most. It keeps every byte, which the more common `json-file` does not. */
const BOUNDED_LOG = {
  Type: 'local',
  Config: { 'max-size': '16m', 'max-file': '4', compress: 'false' },
} satisfies Dockerode.HostConfig['LogConfig'];

const NO_LOG = { Type: 'none', Config: {} } satisfies Dockerode.HostConfig['LogConfig'];

/** What an image says and a run does not get: health checks run beside its limits, and the stop signal may end nothing. */
const OVERRIDES = {
  Healthcheck: { Test: ['NONE'] },
  StopSignal: 'SIGTERM',
} satisfies Dockerode.ContainerCreateOptions;

/** As SERVICE_WORKER_USER: no container may run as root. */
export const NON_ROOT = 'nonroot';

interface EngineChoices {
  /** Undefined: the default of the engine. */
  readonly network: string | undefined;
  readonly engine: EngineFeatures;
  /** SERVICE_WORKER_PIDS; null: it follows the cores. */
  readonly pids: number | null;
  /** SERVICE_WORKER_OCI_RUNTIME; absent or null: the default of the engine. */
  readonly ociRuntime?: string | null;
  /** SERVICE_WORKER_CAPABILITIES; absent: none. */
  readonly capabilities?: readonly string[];
  /** The mounts of volumes. */
  readonly mounts: readonly Dockerode.MountSettings[];
}

/**
 * The body of the engine's create call for one attempt of a run. No capability but the operator's, no new privileges, no engine socket and
 * nothing of the host's files but the volumes that the run mounts. The engine keeps a log of limited size, if it can, from which
 * the worker continues when its attached connection breaks. A limit of memory or CPU below the engine's minimum becomes it.
 */
export function containerOptions(
  spec: ContainerSpec,
  owner: WorkerIdentity,
  { network, engine, pids, ociRuntime, capabilities = [], mounts }: EngineChoices,
): Dockerode.ContainerCreateOptions {
  const Mounts = [
    ...mounts,
    ...namelessVolumes(scratchPaths(spec.mounts)),
    ...namelessVolumes(keptFolders(spec.mounts, spec.artifacts?.folders ?? []), { NoCopy: false }),
    ...ownVolume(spec),
  ];
  return {
    Image: spec.image,
    AttachStdin: false,
    AttachStdout: true,
    AttachStderr: true,
    OpenStdin: false,
    Tty: false,
    Env: environmentOf(spec),
    ...commandOf(spec),
    ...(spec.workdir === null ? {} : { WorkingDir: spec.workdir }),
    ...(spec.user === null ? {} : { User: spec.user }),
    StopTimeout: spec.stop_grace_s,
    ...OVERRIDES,
    Labels: {
      ...ownerLabels(owner),
      [RUN_LABEL]: spec.runId,
      [ATTEMPT_LABEL]: String(spec.attempt),
      ...(spec.name === null ? {} : { [NAME_LABEL]: spec.name }),
      ...(spec.secretNames.length === 0 ? {} : { [SECRETS_LABEL]: spec.secretNames.join(',') }),
      ...(spec.signedQueries.length === 0 ? {} : { [QUERIES_LABEL]: JSON.stringify(spec.signedQueries) }),
      ...Object.fromEntries(
        Object.entries(spec.labels).map(([key, value]) => [`${LABEL_PREFIX}${key}`, value]),
      ),
    },
    HostConfig: {
      ...RESTRICTIONS,
      ...(capabilities.length === 0 ? {} : { CapAdd: [...capabilities] }),
      ...runtimeOf(ociRuntime),
      PidsLimit: pids ?? pidsLimit(spec.limits, engine.cores),
      ...(engine.hasInit ? { Init: true } : {}),
      LogConfig: engine.hasLog ? BOUNDED_LOG : NO_LOG,
      ...networkMode(network),
      ...(Mounts.length === 0 ? {} : { Mounts }),
      ...memoryLimit(spec.limits),
      ...cpuShare(spec.limits, engine.cores),
      ...gpuRequest(spec.limits, engine),
      ...ulimitsOf(spec),
    },
  };
}

/** Which the engine removes with the container; empty ones, unless they are to have what the image has there. */
function namelessVolumes(
  targets: readonly string[],
  { NoCopy } = { NoCopy: true },
): Dockerode.MountSettings[] {
  const DriverConfig = { Name: 'local', Options: {} };
  return targets.map((Target) => ({
    Type: 'volume',
    Source: '',
    Target,
    VolumeOptions: { NoCopy, Labels: {}, DriverConfig },
  }));
}

/** A volume for the worker's own folder, if the outputs have to be read without the container: see `outputs-access.ts`. */
function ownVolume({ mounts }: ContainerSpec): Dockerode.MountSettings[] {
  return hasVolume(mounts) ? namelessVolumes([CONTAINER_FOLDER]) : [];
}

function environmentOf(spec: ContainerSpec): string[] {
  const { gpuIds } = spec.limits;
  const all = {
    ...spec.env,
    ...workerEnvironment(spec, spec.limits, CONTAINER_FOLDER),
    ...(spec.artifacts !== null && { [FILES_ROOT]: '' }),
    // Above what the image says, which programs would read first.
    ...(gpuIds.length > 0 && { NVIDIA_VISIBLE_DEVICES: gpuIds.join(',') }),
  };
  return Object.entries(all).map(([name, value]) => `${name}=${value}`);
}

/** As in Kubernetes: a command without arguments also drops the image's. */
function commandOf({ command, args }: ContainerSpec): Dockerode.ContainerCreateOptions {
  const Cmd = [...(args ?? [])];
  if (command !== null && command.length > 0) return { Entrypoint: [...command], Cmd };
  return Cmd.length > 0 ? { Cmd } : {};
}

/** @param cores of the engine, for a run that may use all of them */
function pidsLimit({ cpuLimitMillis }: ContainerLimits, cores: number): number {
  return PIDS.base + PIDS.perCore * (cpuLimitMillis === 0 ? cores : Math.ceil(cpuLimitMillis / 1000));
}

function memoryLimit({ ramMb, shmMb }: ContainerLimits): Dockerode.HostConfig {
  const bytes = Math.max(ramMb, SMALLEST_MEMORY_MB) * MB;
  const shm = shmMb ?? ramMb;
  return {
    ...(ramMb > 0 && { Memory: bytes, MemorySwap: bytes }),
    ...(shm > 0 && { ShmSize: shm * MB }),
  };
}

/**
 * The request is a weight, which counts while others want the same cores. A limit beyond the engine's cores, which engines
 * refuse, is cut, unless the run requests as many.
 * @param cores of the engine
 */
function cpuShare({ cpuMillis, cpuLimitMillis }: ContainerLimits, cores: number): Dockerode.HostConfig {
  const limit = Math.min(cpuLimitMillis, Math.max(cpuMillis, cores * 1000));
  const shares = Math.round((cpuMillis * SHARES.perCore) / 1000);
  return {
    ...(cpuMillis > 0 && { CpuShares: Math.min(SHARES.most, Math.max(SHARES.least, shares)) }),
    ...(limit > 0 && { NanoCpus: Math.max(limit, SMALLEST_CPU_MILLIS) * 1_000_000 }),
  };
}

/** The request for GPUs. Podman knows them by their names of the container device interface (CDI) alone. */
export function gpuRequest(
  { gpuIds, vramMb }: Pick<ContainerLimits, 'gpuIds' | 'vramMb'>,
  { isPodman }: Pick<EngineFeatures, 'isPodman'>,
): Dockerode.HostConfig {
  if (isPodman) {
    const ids = gpuIds.length > 0 || vramMb === 0 ? gpuIds : [0];
    const DeviceIDs = ids.map((id) => `nvidia.com/gpu=${id}`);
    return ids.length > 0 ? { DeviceRequests: [{ Driver: 'cdi', DeviceIDs }] } : {};
  }
  const gpu = { Driver: '', Capabilities: [['gpu']] };
  if (gpuIds.length > 0) return { DeviceRequests: [{ ...gpu, DeviceIDs: gpuIds.map(String) }] };
  return vramMb > 0 ? { DeviceRequests: [{ ...gpu, Count: 1 }] } : {};
}

function ulimitsOf({ ulimits }: ContainerSpec): Dockerode.HostConfig {
  const Ulimits = Object.entries(ulimits).map(([Name, value]) => ({ Name, Soft: value, Hard: value }));
  return Ulimits.length === 0 ? {} : { Ulimits };
}

function runtimeOf(ociRuntime: string | null = null): Dockerode.HostConfig {
  return ociRuntime === null ? {} : { Runtime: ociRuntime };
}

function networkMode(network?: string): Dockerode.HostConfig {
  return network === undefined ? {} : { NetworkMode: network };
}

/** @throws RunFault when a created container would run as root, or as a user whose number only the image knows */
export async function checkUser(container: Dockerode.Container, limitMs: number): Promise<void> {
  const { Config } = await withLimit(limitMs, 'inspect', (abortSignal) => container.inspect({ abortSignal }));
  const [user = ''] = Config.User.split(':');
  if (/^[0-9]+$/.test(user) && Number(user) !== 0) return;
  const named = user === '' ? 'root' : `'${user}'`;
  throw new RunFault(
    `This worker executes no container as root, and the user of this one is ${named}: give the run a \`user\` as a number above 0`,
  );
}

/** What a probe has in common with the containers of runs. */
export interface ProbeChoices {
  /** Absent: the default network of the engine. */
  readonly network?: string;
  /** Absent or null: the default of the engine. */
  readonly ociRuntime?: string | null;
  /** As `gpuRequest`; absent: none. */
  readonly gpus?: Dockerode.HostConfig;
}

/** A command that no image has. */
export const PROBE_COMMAND = 'longshore-probe';

/**
 * The body of the create call for a container that shows whether the engine starts containers. Its command does not exist,
 * so nothing of the image is executed: an engine that says so has set up storage, network and limits.
 */
export function probeOptions(
  image: string,
  owner: WorkerIdentity,
  { network, ociRuntime, gpus }: ProbeChoices = {},
): Dockerode.ContainerCreateOptions {
  return {
    Image: image,
    User: '0',
    WorkingDir: '/',
    Entrypoint: [PROBE_COMMAND],
    Cmd: [],
    ...OVERRIDES,
    Labels: { ...ownerLabels(owner), [RUN_LABEL]: '' },
    HostConfig: {
      ...RESTRICTIONS,
      ...runtimeOf(ociRuntime),
      PidsLimit: PIDS.base,
      LogConfig: NO_LOG,
      ...networkMode(network),
      ...gpus,
    },
  };
}
