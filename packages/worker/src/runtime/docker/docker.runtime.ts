import type { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import type { Capability } from '@longshore/client/constants';
import { graceCapabilities, ulimitCapabilities, type Ulimits } from '@longshore/common/capabilities';
import { checkUser, containerOptions, gpuRequest, NON_ROOT } from './container/container-options.js';
import {
  connectEngine,
  engineMessage,
  withLimit,
  readFeatures,
  type EngineFeatures,
} from './engine/docker-engine.js';
import { checkCreated, discarded, NotAsAsked } from './container/created.js';
import { attachOutput } from './container/container-output.js';
import {
  CONTAINER_TIMING,
  DockerContainer,
  removeContainer,
  type ContainerTiming,
} from './container/docker.container.js';
import { fillContainer } from './container/container-files.js';
import { putFetched } from './container/fetched-files.js';
import { readEngineAddress, type EngineAddress } from './engine/engine-address.js';
import { checkEngine, type EngineCheck } from './engine/engine-versions.js';
import { createContainer, probeEngine, probeGpus, withUnstarted } from './engine-probe.js';
import { judgeStart } from './start-judge.js';
import { RunNetworks, type NetworkOptions } from './container/run-network.js';
import { EngineImages, type ImageOptions } from './images/engine-images.js';
import { adoptContainer } from './adopt-container.js';
import { findStarted, removeAbandoned, removeLeftovers } from './leftover-containers.js';
import { MountFault } from './mounts/sub-folder.js';
import { VolumeMounts, type PreparedMounts, type VolumeOptions } from './mounts/volume-mounts.js';
import { ImagePlaces, type WithContainer } from './places/image-places.js';
import { lookupIn } from './places/look-up.js';
import { outputsAccess, type WithUnstarted } from './places/outputs-access.js';
import { checkMountedWorkdir, mountedVolumes, type ImageWishes } from './places/place-rules.js';
import { homesOf } from './places/user-account.js';
import { NO_VOLUMES, volumeCapabilities } from '../../settings/volumes.js';
import type { ContainerEngine, RegistryLogin, Unable } from '../../service-api/service-api.js';
import {
  CONTAINER_CAPABILITIES,
  MachineUnable,
  RunFault,
  type AdoptedContainer,
  type Adoption,
  type ContainerSpec,
  type FoundContainer,
  type RunningContainer,
  type Runtime,
} from '../runtime.js';

export interface DockerRuntimeOptions extends ImageOptions, NetworkOptions, VolumeOptions {
  /** DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH. */
  readonly env: NodeJS.ProcessEnv;
  readonly timing?: ContainerTiming;
  /** SERVICE_WORKER_USER; absent or null: that of the run or the image. */
  readonly user?: string | null;
  /** SERVICE_WORKER_PIDS; absent or null: by the cores. */
  readonly pids?: number | null;
  /** SERVICE_WORKER_CAPABILITIES; absent: none. */
  readonly capabilities?: readonly string[];
  /** SERVICE_WORKER_MAX_GRACE_S; absent: the least that it may be. */
  readonly maxGraceSeconds?: number;
  /** SERVICE_WORKER_ULIMITS; absent: none. */
  readonly ulimits?: Ulimits;
  /** SERVICE_WORKER_OCI_RUNTIME; absent or null: the default of the engine. */
  readonly ociRuntime?: string | null;
}

/**
 * Runs containers on a Docker Engine API. Inputs and outputs are copied into and out of a container, so nothing of the host but
 * the volumes of runs is mounted, and the engine may be on another machine.
 */
export class DockerRuntime implements Runtime {
  readonly name = 'docker';
  readonly capabilities: readonly Capability[];
  private readonly address: EngineAddress;
  private readonly timing: ContainerTiming;
  private readonly volumes: VolumeMounts;
  private readonly networks: RunNetworks;
  private readonly images: EngineImages;
  private readonly places: ImagePlaces;
  private connected: Promise<Dockerode> | null = null;
  /** What the containers are for that are being started, run or wait for their removal. */
  private readonly current = new Set<string>();
  private probes = 0;
  private features: Promise<EngineFeatures> | null = null;
  private versions: ContainerEngine | null = null;

  /** @throws Error when DOCKER_HOST is invalid */
  constructor(private readonly options: DockerRuntimeOptions) {
    this.address = readEngineAddress(options.env);
    this.timing = options.timing ?? CONTAINER_TIMING;
    const networks = ['none', ...(options.networks?.keys() ?? [])];
    this.capabilities = [
      ...CONTAINER_CAPABILITIES,
      'artifacts',
      ...networks.map((name) => `network:${name}` as const),
      ...volumeCapabilities(options.volumes ?? NO_VOLUMES),
      ...graceCapabilities(options.maxGraceSeconds ?? 0),
      ...ulimitCapabilities(options.ulimits ?? {}),
    ];
    this.volumes = new VolumeMounts(options, this.timing);
    this.networks = new RunNetworks(options, this.timing.callMs);
    this.images = new EngineImages(options, () => this.engine());
    this.places = new ImagePlaces(this.timing);
  }

  /** As `checkEngine` has read it; null before. */
  get containerEngine(): ContainerEngine | null {
    return this.versions;
  }

  /** @throws SettingsError when containers must not be started with this engine, or with the chosen OCI runtime */
  async checkEngine(oldEngine: EngineCheck['oldEngine']): Promise<void> {
    const { ociRuntime = null, log } = this.options;
    this.versions = await checkEngine(
      await this.engine(),
      { oldEngine, ociRuntime, log },
      this.timing.callMs,
    );
  }

  /** @throws Error that names a volume of SERVICE_WORKER_VOLUMES that the engine does not have */
  async checkVolumes(): Promise<void> {
    await this.volumes.check(await this.engine());
  }

  /** @throws EngineFault that names a network of SERVICE_WORKER_NETWORKS that the engine does not have */
  async checkNetworks(): Promise<void> {
    await this.networks.check(await this.engine());
  }

  keep(image: string): () => void {
    return this.images.keep(image);
  }

  pull(image: string, signal: AbortSignal, login?: RegistryLogin | null): Promise<string> {
    return this.images.pull(image, signal, login);
  }

  removeUnusedImages(): Promise<void> {
    return this.images.removeUnusedImages();
  }

  async start(spec: ContainerSpec, signal?: AbortSignal): Promise<RunningContainer> {
    const name = attemptName(spec.runId, spec.attempt);
    const forget = (): void => void this.current.delete(name);
    this.current.add(name);
    try {
      for (let isProven = false; ; isProven = true) {
        signal?.throwIfAborted();
        const started = await this.tryStart(spec, { signal, isProven, onRemoved: forget });
        if (started !== null) return started;
      }
    } catch (error) {
      forget();
      throw error;
    }
  }

  async findLeft(): Promise<readonly FoundContainer[]> {
    return findStarted(await this.engine(), this.options, this.timing);
  }

  async adopt({ runId, attempt, id }: FoundContainer, adoption: Adoption): Promise<AdoptedContainer> {
    const name = attemptName(runId, attempt);
    this.current.add(name);
    const engine = await this.engine();
    const { timing } = this;
    return adoptContainer(engine.getContainer(id), adoption, {
      engine,
      timing,
      log: this.options.log,
      readHasLog: async () => (await this.findFeatures(engine)).hasLog,
      onRemoved: () => void this.current.delete(name),
      looking: (image) => async (mounts, task) =>
        this.withUnstarted(engine, image, await this.places.find(engine, image))(mounts, task),
    });
  }

  async removeFound({ runId, attempt, id }: FoundContainer): Promise<void> {
    await removeContainer((await this.engine()).getContainer(id), this.timing);
    this.current.delete(attemptName(runId, attempt));
  }

  async removeLeftovers(): Promise<number> {
    return removeLeftovers(await this.engine(), this.options, this.timing, (attempt) =>
      attempt === null ? this.probes > 0 : this.current.has(attemptName(attempt.runId, attempt.attempt)),
    );
  }

  async removeAbandoned(isLost: (runId: string, attempt: number) => Promise<boolean>): Promise<number> {
    return removeAbandoned(await this.engine(), this.options, this.timing, isLost, this.options.now?.());
  }

  async probe(): Promise<void> {
    this.probes += 1;
    try {
      const engine = await this.engine();
      await this.networks.ensure(engine);
      await probeEngine(engine, this.options, this.timing);
    } finally {
      this.probes -= 1;
    }
  }

  async probeGpus(ids: readonly number[]): Promise<void> {
    this.probes += 1;
    try {
      const engine = await this.engine();
      await this.networks.ensure(engine);
      const gpus = gpuRequest({ gpuIds: ids, vramMb: 0 }, await this.findFeatures(engine));
      await probeGpus(engine, { ...this.options, gpus }, this.timing);
    } finally {
      this.probes -= 1;
    }
  }

  async discardedLimits(): Promise<readonly Unable[]> {
    const { ociRuntime = null } = this.options;
    const { discards } = await readFeatures(await this.engine(), this.timing.callMs, ociRuntime);
    return discards.map((ability) => ({ ability, message: discarded(ability) }));
  }

  /**
   * Tries once. A failure without a known cause is the run's if the engine can start something else and then fails again.
   * @returns null: try again
   */
  private async tryStart(
    spec: ContainerSpec,
    { signal, isProven, onRemoved }: StartTry,
  ): Promise<DockerContainer | null> {
    const engine = await this.engine();
    const network = await this.networks.ensure(engine, spec.network);
    const { timing } = this;
    let created: Dockerode.Container | null = null;
    let attached: Readable | null = null;
    let mounts: PreparedMounts | null = null;
    try {
      const { pids = null, user = null, ociRuntime = null, capabilities } = this.options;
      const chosen = user === null || user === NON_ROOT ? spec : { ...spec, user };
      const features = await this.findFeatures(engine);
      const image = await this.places.find(engine, spec.image);
      // To look into a container with mounts, the engine would mount them; and it makes the working directory.
      const looksFirst = spec.mounts.length > 0 || image.volumes.length > 0 || spec.workdir !== null;
      const looking = this.withUnstarted(engine, spec.image, image);
      const inImage: WithContainer = (task) => looking([], task);
      const workdir = looksFirst ? await this.places.check(spec, image, inImage) : null;
      const account = await this.places.findAccount(chosen, image, inImage);
      const executed = { ...chosen, env: { ...account, ...chosen.env } };
      mounts = await this.volumes.prepare(engine, executed, features);
      const choices = { network, pids, ociRuntime, capabilities, engine: features, mounts: mounts.settings };
      const options = containerOptions(executed, this.options, choices);
      const said: string[] = [];
      const onWarnings = (words: readonly string[]): void => void said.push(...words);
      const container = (created = await createContainer(engine, options, timing.startMs, onWarnings));
      const warnings = await checkCreated(container, options, said, timing.callMs);
      if (workdir !== null)
        await checkMountedWorkdir(workdir.path, spec.mounts, lookupIn(container, timing.callMs));
      else await this.places.check(spec, image, (task) => task(container));
      if (user === NON_ROOT) await checkUser(container, timing.callMs);
      const made = [...(workdir?.isNew === true ? [workdir.path] : []), ...homesOf(account)];
      await fillContainer(container, executed, made, timing);
      await putFetched(container, executed, timing, signal);
      attached = await attachOutput(container, timing.callMs);
      signal?.throwIfAborted();
      await withLimit(timing.startMs, 'start', (abortSignal) => container.start({ abortSignal }));
      const opened = mounts;
      const onGone = (): void => {
        onRemoved();
        void opened.close();
      };
      const { hasLog } = features;
      const left = { mounts: spec.mounts, folders: spec.artifacts?.folders ?? [] };
      const withOutputs = outputsAccess(container, left, timing.callMs, looking);
      const { log } = this.options;
      const begun = { attached, earlier: null, hasEnded: false, hasLog, withOutputs };
      return new DockerContainer(container, { engine, timing, log, warnings, ...begun, onRemoved: onGone });
    } catch (error) {
      attached?.destroy();
      // A container that the engine creates later than it answers is removed by the next search for leftovers.
      if (created !== null) await this.discard(created);
      await mounts?.close();
      signal?.throwIfAborted();
      if (FINAL.some((kind) => error instanceof kind)) throw error;
      const what = created === null ? 'created' : 'started';
      const fault = mounts?.logRefusal(error);
      if (fault !== undefined) throw fault;
      return judgeStart(error, spec, { what, isProven, runtime: this, log: this.options.log });
    }
  }

  /** Volumes of the image are replaced by what the engine mounts only at a start. */
  private withUnstarted(engine: Dockerode, image: string, wishes: ImageWishes): WithUnstarted {
    const volumes = mountedVolumes([], wishes).map(
      (Target) => ({ Type: 'tmpfs', Source: '', Target }) as const,
    );
    return async (mounts, task) => {
      this.probes += 1;
      try {
        const wanted = { image, owner: this.options, mounts: [...volumes, ...mounts] };
        return await withUnstarted(engine, wanted, this.timing, task);
      } finally {
        this.probes -= 1;
      }
    };
  }

  private async discard(container: Dockerode.Container): Promise<void> {
    try {
      await removeContainer(container, this.timing);
    } catch (error) {
      this.options.log.warn(
        { container: container.id, error: engineMessage(error) },
        'container left behind',
      );
    }
  }

  private async findFeatures(engine: Dockerode): Promise<EngineFeatures> {
    this.features ??= readFeatures(engine, this.timing.callMs, this.options.ociRuntime ?? null);
    try {
      return await this.features;
    } catch (error) {
      this.features = null;
      throw error;
    }
  }

  private engine(): Promise<Dockerode> {
    this.connected ??= connectEngine(this.address);
    return this.connected;
  }
}

/** Errors that are judged already. */
const FINAL = [RunFault, MountFault, MachineUnable, NotAsAsked];

interface StartTry {
  readonly signal: AbortSignal | undefined;
  /** Whether the engine started another container after this one failed. */
  readonly isProven: boolean;
  readonly onRemoved: () => void;
}

function attemptName(runId: string, attempt: number): string {
  return `${runId}/${attempt}`;
}
