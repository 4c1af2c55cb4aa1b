import type { Readable } from 'node:stream';
import type Dockerode from 'dockerode';
import type { Capability } from '@longshore/client/constants';
import {
  CAPABILITIES,
  ATTEMPT_LABEL,
  checkUser,
  containerOptions,
  INSTANCE_LABEL,
  NON_ROOT,
  ownerLabels,
  RUN_LABEL,
  WORKER_LABEL,
} from './container/container-options.js';
import { connectEngine, engineMessage, withLimit } from './engine/docker-engine.js';
import { attachOutput } from './container/container-output.js';
import {
  CONTAINER_TIMING,
  DockerContainer,
  removeContainer,
  type ContainerTiming,
} from './container/docker.container.js';
import { fillContainer } from './container/container-files.js';
import { readEngineAddress, type EngineAddress } from './engine/engine-address.js';
import { readFeatures, type EngineFeatures } from './engine/engine-features.js';
import { createContainer, probeEngine } from './engine-probe.js';
import { faultOf, isDiskFull, startVerdict } from './engine/engine-verdict.js';
import type { ImagePolicy } from './images/image-policy.js';
import { ImagePull } from './images/image-pull.js';
import { canonicalName, parseImageReference } from './images/image-reference.js';
import type { LoginFile } from './images/login-file.js';
import { PULL_TIMING, type PullTiming } from './images/pull-watch.js';
import { ensureNetwork } from './container/run-network.js';
import { ImageAccess, isMarkName } from './images/image-access.js';
import { ImageStore, UNLIMITED, type ImageBudget } from './images/image-store.js';
import { ImageUses } from './images/image-uses.js';
import { MountFault } from './mounts/sub-folder.js';
import { VolumeMounts, type PreparedMounts } from './mounts/volume-mounts.js';
import type { WorkerIdentity } from '../../process/worker-identity.js';
import { NO_VOLUMES, volumeCapabilities, type OfferedVolumes } from '../volumes.js';
import { SecretMask } from '../../secrets/secret-mask.js';
import type { RegistryLogin } from '../../service-api/service-api.js';
import {
  EngineFault,
  RunFault,
  type ContainerSpec,
  type RunningContainer,
  type Runtime,
  type RuntimeLog,
} from '../runtime.js';

export interface DockerRuntimeOptions {
  /** DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH. */
  readonly env: NodeJS.ProcessEnv;
  readonly workerId: string;
  /** Of the worker's identity. */
  readonly instance: string;
  readonly log: RuntimeLog;
  readonly policy: ImagePolicy;
  readonly timing?: ContainerTiming;
  readonly pullTiming?: PullTiming;
  /** SERVICE_WORKER_NETWORK; absent: the default network of the engine. */
  readonly network?: string;
  /** SERVICE_WORKER_NETWORKS: networks of the engine by the names that runs choose; absent: none. */
  readonly networks?: ReadonlyMap<string, string>;
  /** SERVICE_WORKER_VOLUMES; absent: none. */
  readonly volumes?: OfferedVolumes;
  /** Of SERVICE_WORKER_REGISTRY_LOGINS; absent or null: none. */
  readonly logins?: LoginFile | null;
  /** SERVICE_WORKER_USER; absent or null: that of the run or the image. */
  readonly user?: string | null;
  /** SERVICE_WORKER_PIDS; absent or null: by the cores. */
  readonly pids?: number | null;
  /** Absent: pulled images are kept. */
  readonly imageBudget?: ImageBudget;
  /** Milliseconds since 1970; absent: of the system. */
  readonly now?: () => number;
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
  private readonly imageUses = new ImageUses();
  private connected: Promise<Dockerode> | null = null;
  /** What the containers are for that are being started, run or wait for their removal. */
  private readonly current = new Set<string>();
  private probes = 0;
  private store: Promise<ImageStore> | null = null;
  private features: Promise<EngineFeatures> | null = null;

  /** @throws Error when DOCKER_HOST is invalid */
  constructor(private readonly options: DockerRuntimeOptions) {
    this.address = readEngineAddress(options.env);
    this.timing = options.timing ?? CONTAINER_TIMING;
    const networks = ['none', ...(options.networks?.keys() ?? [])];
    this.capabilities = [
      ...CAPABILITIES,
      ...networks.map((name) => `network:${name}` as const),
      ...volumeCapabilities(options.volumes ?? NO_VOLUMES),
    ];
    this.volumes = new VolumeMounts(options, this.timing);
  }

  /** @throws Error that names a volume of SERVICE_WORKER_VOLUMES that the engine does not have */
  async checkVolumes(): Promise<void> {
    await this.volumes.check(await this.engine());
  }

  /** @throws EngineFault that names a network of SERVICE_WORKER_NETWORKS that the engine does not have */
  async checkNetworks(): Promise<void> {
    const engine = await this.engine();
    for (const name of this.options.networks?.keys() ?? []) await this.ensureNetwork(engine, name);
  }

  keep(image: string): () => void {
    try {
      return this.imageUses.keep(canonicalName(parseImageReference(image)));
    } catch {
      // Its pull says what is wrong with it.
      return () => undefined;
    }
  }

  async pull(image: string, signal: AbortSignal, login: RegistryLogin | null = null): Promise<string> {
    const { pullTiming: timing = PULL_TIMING, policy, log, logins = null } = this.options;
    const reference = parseImageReference(image);
    if (isMarkName(reference))
      throw new RunFault(`'${image}' is a name that workers use`, { reported: 'image' });
    await policy.check(reference);
    const release = this.keep(image);
    const store = await this.imageStore();
    try {
      const access = new ImageAccess(reference, login !== null, store, this.imageUses);
      const engine = await this.engine();
      const options = { timing, log, login, logins, access };
      const id = await new ImagePull(engine, reference, options).run(signal);
      void this.sweep(store);
      return id;
    } catch (error) {
      if (error instanceof EngineFault && isDiskFull(error.cause))
        await this.sweep(store, { maxAgeMs: 0, maxBytes: 0 });
      throw error;
    } finally {
      release();
    }
  }

  async removeUnusedImages(): Promise<void> {
    await this.sweep(await this.imageStore());
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

  async removeLeftovers(): Promise<number> {
    const engine = await this.engine();
    let removed = 0;
    for (const { Id, Labels } of await this.list(engine, ownLabels(this.options))) {
      const runId = Labels[RUN_LABEL];
      const isNeeded =
        runId === undefined
          ? this.probes > 0
          : this.current.has(attemptName(runId, Number(Labels[ATTEMPT_LABEL])));
      if (isNeeded) continue;
      await removeContainer(engine.getContainer(Id), this.timing);
      removed += 1;
    }
    return removed;
  }

  async removeAbandoned(isLost: (runId: string, attempt: number) => Promise<boolean>): Promise<number> {
    const { workerId, instance } = this.options;
    const engine = await this.engine();
    let remaining = 0;
    for (const { Id, Labels } of await this.list(engine, [`${WORKER_LABEL}=${workerId}`])) {
      const runId = Labels[RUN_LABEL];
      if (Labels[INSTANCE_LABEL] === instance || runId === undefined) continue;
      if (await isLost(runId, Number(Labels[ATTEMPT_LABEL])))
        await removeContainer(engine.getContainer(Id), this.timing);
      else remaining += 1;
    }
    return remaining;
  }

  async probe(): Promise<void> {
    this.probes += 1;
    try {
      const engine = await this.engine();
      await this.ensureNetwork(engine);
      await probeEngine(engine, this.options, this.timing);
    } finally {
      this.probes -= 1;
    }
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
    const network = await this.ensureNetwork(engine, spec.network);
    const { timing } = this;
    let created: Dockerode.Container | null = null;
    let attached: Readable | null = null;
    let mounts: PreparedMounts | null = null;
    try {
      const { pids, user = null } = this.options;
      const executed = user === null || user === NON_ROOT ? spec : { ...spec, user };
      const features = await this.featuresOf(engine);
      mounts = await this.volumes.prepare(engine, executed, features);
      const choices = { network, pids, engine: features, mounts: mounts.settings };
      const options = containerOptions(executed, this.options, choices);
      const container = (created = await createContainer(engine, options, timing.startMs));
      if (user === NON_ROOT) await checkUser(container, timing.callMs);
      await fillContainer(container, executed, timing);
      attached = await attachOutput(container, timing.callMs);
      signal?.throwIfAborted();
      await withLimit(timing.startMs, 'start', (abortSignal) => container.start({ abortSignal }));
      const opened = mounts;
      const onGone = (): void => {
        onRemoved();
        void opened.close();
      };
      const parts = { engine, timing, log: this.options.log, attached, onRemoved: onGone };
      return new DockerContainer(container, parts);
    } catch (error) {
      attached?.destroy();
      // A container that the engine creates later than it answers is removed by the next search for leftovers.
      if (created !== null) await this.discard(created);
      await mounts?.close();
      signal?.throwIfAborted();
      if (error instanceof RunFault || error instanceof MountFault) throw error;
      const what = created === null ? 'created' : 'started';
      const fault = mounts?.faultOf(error);
      if (fault !== undefined) throw fault;
      return this.judge(error, spec, { what, isProven });
    }
  }

  /**
   * The words of the engine go to the log, the reason to the run.
   * @returns null: the engine can start containers; whether it can start this one is not known
   */
  private async judge(
    error: unknown,
    { runId, env, limits }: ContainerSpec,
    { what, isProven }: { readonly what: string; readonly isProven: boolean },
  ): Promise<null> {
    const { log } = this.options;
    const { blame, reason } = startVerdict(error, limits);
    const words = engineMessage(error, SecretMask.of(env));
    log.warn({ run: runId, error: words }, `container not ${what}`);
    const message = `The container could not be ${what}: ${reason}`;
    if (blame !== 'unproven') throw faultOf(blame, message, error);
    if (isProven) throw faultOf('run', message, error);
    try {
      await this.probe();
    } catch (cause) {
      log.warn({ error: engineMessage(cause) }, 'the container engine cannot start a probe either');
      throw faultOf('engine', message, error);
    }
    return null;
  }

  private list(engine: Dockerode, label: string[]): Promise<Dockerode.ContainerInfo[]> {
    return withLimit(this.timing.callMs, 'list', (abortSignal) =>
      engine.listContainers({ all: true, filters: { label }, abortSignal }),
    );
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

  private async featuresOf(engine: Dockerode): Promise<EngineFeatures> {
    this.features ??= readFeatures(engine, this.timing.callMs);
    try {
      return await this.features;
    } catch (error) {
      this.features = null;
      throw error;
    }
  }

  /**
   * @param chosen by the run; null: the worker's
   * @returns the network of the engine; undefined: the engine's default
   */
  private async ensureNetwork(engine: Dockerode, chosen: string | null = null): Promise<string | undefined> {
    const { network, networks } = this.options;
    if (chosen === 'none') return chosen;
    const name = chosen === null ? network : networks?.get(chosen);
    if (chosen !== null && name === undefined)
      throw new RunFault(`This worker does not have the network '${chosen}'`);
    const setting = chosen === null ? 'SERVICE_WORKER_NETWORK' : 'SERVICE_WORKER_NETWORKS';
    if (name !== undefined) await ensureNetwork(engine, { name, setting }, this.timing.callMs);
    return name;
  }

  /** Never rejects: images that stay are tried again. */
  private async sweep(store: ImageStore, budget?: ImageBudget): Promise<void> {
    try {
      await store.sweep(budget);
    } catch (error) {
      this.options.log.warn({ error: engineMessage(error) }, 'images not compared with their budget');
    }
  }

  private imageStore(): Promise<ImageStore> {
    const { imageBudget: budget = UNLIMITED, log, now } = this.options;
    this.store ??= this.engine().then(
      (engine) => new ImageStore(engine, { uses: this.imageUses, budget, log, now }),
    );
    return this.store;
  }

  private engine(): Promise<Dockerode> {
    this.connected ??= connectEngine(this.address);
    return this.connected;
  }
}

interface StartTry {
  readonly signal: AbortSignal | undefined;
  /** Whether the engine started another container after this one failed. */
  readonly isProven: boolean;
  readonly onRemoved: () => void;
}

/** Filters of the containers of a worker's id and lock. */
function ownLabels(owner: WorkerIdentity): string[] {
  return Object.entries(ownerLabels(owner)).map(([name, value]) => `${name}=${value}`);
}

function attemptName(runId: string, attempt: number): string {
  return `${runId}/${attempt}`;
}
