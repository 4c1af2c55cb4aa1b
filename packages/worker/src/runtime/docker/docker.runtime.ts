import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type Dockerode from 'dockerode';
import {
  ATTEMPT_LABEL,
  containerOptions,
  INSTANCE_LABEL,
  ownerLabels,
  probeOptions,
  RUN_LABEL,
  WORKER_LABEL,
} from './container-options.js';
import { connectEngine, engineMessage, engineStatus, withLimit } from './docker-engine.js';
import { attachOutput } from './container-output.js';
import {
  CONTAINER_TIMING,
  DockerContainer,
  removeContainer,
  type ContainerTiming,
} from './docker.container.js';
import { putInputs } from './container-files.js';
import { describeEngineAddress, readEngineAddress, type EngineAddress } from './engine-address.js';
import { isBadCommand, isDiskFull, lacksResource, startReason } from './engine-reason.js';
import type { ImagePolicy } from './image-policy.js';
import { ImagePull, PULL_STALL_MS } from './image-pull.js';
import { canonicalName, localName, parseImageReference } from './image-reference.js';
import { ensureNetwork } from './run-network.js';
import { ImageAccess, isMarkName } from './store/image-access.js';
import { ImageStore, UNLIMITED, type ImageBudget } from './store/image-store.js';
import { ImageUses } from './store/image-uses.js';
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

const PING_MS = 3_000;

const START_MS = 120_000;

const PUT_TRIES = 3;

export interface DockerRuntimeOptions {
  /** DOCKER_HOST, DOCKER_TLS_VERIFY, DOCKER_CERT_PATH. */
  readonly env: NodeJS.ProcessEnv;
  readonly workerId: string;
  /** Of the worker's identity. */
  readonly instance: string;
  readonly log: RuntimeLog;
  readonly policy: ImagePolicy;
  readonly timing?: ContainerTiming;
  /** Longest time without progress of a pull, in milliseconds. */
  readonly pullStallMs?: number;
  /** SERVICE_WORKER_NETWORK; absent: the default network of the engine. */
  readonly network?: string;
  /** Absent: pulled images are kept. */
  readonly imageBudget?: ImageBudget;
  /** Milliseconds since 1970; absent: of the system. */
  readonly now?: () => number;
}

/** Whether an engine answers where DOCKER_HOST says, within 3 s. */
export async function dockerAvailable(env: NodeJS.ProcessEnv): Promise<boolean> {
  return (await engineProblem(env)) === null;
}

/** Why no engine can be used, in one sentence; null when one answers. */
export async function engineProblem(env: NodeJS.ProcessEnv): Promise<string | null> {
  let where = 'the container engine';
  try {
    const address = readEngineAddress(env);
    where = `the container engine at ${describeEngineAddress(address)}`;
    const engine = await connectEngine(address, PING_MS);
    await withLimit(PING_MS, 'ping', () => engine.ping());
    return null;
  } catch (error) {
    return `${where} cannot be used: ${engineMessage(error)}`;
  }
}

/**
 * Runs containers on a Docker Engine API. Inputs and outputs are copied into and out of a container, so nothing of the host is
 * mounted and the engine may be on another machine.
 */
export class DockerRuntime implements Runtime {
  readonly name = 'docker';
  readonly capabilities = ['env', 'command', 'secrets', 'registry'] as const;
  private readonly address: EngineAddress;
  private readonly timing: ContainerTiming;
  private readonly imageUses = new ImageUses();
  private connected: Promise<Dockerode> | null = null;
  private store: Promise<ImageStore> | null = null;
  private logDrivers: Promise<unknown> | null = null;

  /** @throws Error when DOCKER_HOST is invalid */
  constructor(private readonly options: DockerRuntimeOptions) {
    this.address = readEngineAddress(options.env);
    this.timing = options.timing ?? CONTAINER_TIMING;
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
    const { pullStallMs = PULL_STALL_MS, policy, log } = this.options;
    const reference = parseImageReference(image);
    if (isMarkName(reference))
      throw new RunFault(`'${image}' is a name that workers use`, { reported: 'image' });
    await policy.check(reference);
    const release = this.keep(image);
    const store = await this.imageStore();
    try {
      const access = new ImageAccess(reference, login !== null, store, this.imageUses);
      const engine = await this.engine();
      const id = await new ImagePull(engine, reference, { stallMs: pullStallMs, log, login, access }).run(
        signal,
      );
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

  async start(spec: ContainerSpec): Promise<RunningContainer> {
    const engine = await this.engine();
    await this.ensureNetwork(engine);
    const container = await this.create(engine, spec);
    let attached: Readable | null = null;
    try {
      await this.putInputs(container, spec);
      attached = await attachOutput(container, this.timing.callMs);
      await withLimit(START_MS, 'start', (abortSignal) => container.start({ abortSignal }));
    } catch (error) {
      attached?.destroy();
      await this.discard(container);
      throw this.startProblem('started', spec, error);
    }
    return new DockerContainer(container, attached, this.timing, this.options.log);
  }

  async removeLeftovers(): Promise<number> {
    return this.removeLabelled([]);
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

  async probe(image: string): Promise<void> {
    const engine = await this.engine();
    try {
      await withLimit(PING_MS, 'ping', () => engine.ping());
      const candidate = await this.localImage(engine, image);
      // Without any image there is nothing more to try.
      if (candidate !== null) await this.probeWith(engine, candidate);
    } catch (error) {
      throw new Error(engineMessage(error), { cause: error });
    }
  }

  /** @returns the image itself, else any local one, or null */
  private async localImage(engine: Dockerode, image: string): Promise<string | null> {
    const { callMs } = this.timing;
    const name = localName(parseImageReference(image));
    try {
      await withLimit(callMs, 'image inspect', () => engine.getImage(name).inspect());
      return name;
    } catch (error) {
      if (engineStatus(error) !== 404) throw error;
    }
    const [any] = await withLimit(callMs, 'images', (abortSignal) => engine.listImages({ abortSignal }));
    return any?.Id ?? null;
  }

  private async probeWith(engine: Dockerode, image: string): Promise<void> {
    await this.ensureNetwork(engine);
    const container = await this.request(engine, probeOptions(image, this.options, this.options.network));
    try {
      await withLimit(START_MS, 'start', (abortSignal) => container.start({ abortSignal }));
    } catch (error) {
      if (!isBadCommand(error)) throw error;
    } finally {
      await this.discard(container);
    }
  }

  private async create(engine: Dockerode, spec: ContainerSpec): Promise<Dockerode.Container> {
    try {
      const { network } = this.options;
      const hasLog = await this.hasLog(engine);
      return await this.request(engine, containerOptions(spec, this.options, { network, hasLog }));
    } catch (error) {
      // Without an answer, the engine may have created the container.
      if (engineStatus(error) === null) await this.discardAttempt(spec);
      throw this.startProblem('created', spec, error);
    }
  }

  private request(engine: Dockerode, body: Dockerode.ContainerCreateOptions): Promise<Dockerode.Container> {
    return withLimit(START_MS, 'create', (abortSignal) => {
      // Otherwise the library repeats the body in the query.
      const cancellable = { _query: {}, _body: body, abortSignal };
      return engine.createContainer(cancellable);
    });
  }

  /** Repeats a call whose connection broke: it may be made twice. */
  private async putInputs(container: Dockerode.Container, spec: ContainerSpec): Promise<void> {
    for (let tries = 1; ; tries++) {
      try {
        await withLimit(START_MS, 'archive', (abortSignal) => putInputs(container, spec, abortSignal));
        return;
      } catch (error) {
        if (engineStatus(error) !== null || tries === PUT_TRIES) throw error;
        await sleep(this.timing.retryMs);
      }
    }
  }

  private list(engine: Dockerode, label: string[]): Promise<Dockerode.ContainerInfo[]> {
    return withLimit(this.timing.callMs, 'list', (abortSignal) =>
      engine.listContainers({ all: true, filters: { label }, abortSignal }),
    );
  }

  /** Removes containers of this worker's id and lock. */
  private async removeLabelled(more: readonly string[]): Promise<number> {
    const engine = await this.engine();
    const own = Object.entries(ownerLabels(this.options)).map(([name, value]) => `${name}=${value}`);
    const found = await this.list(engine, [...own, ...more]);
    for (const { Id } of found) await removeContainer(engine.getContainer(Id), this.timing);
    return found.length;
  }

  private async discardAttempt({ runId, attempt }: ContainerSpec): Promise<void> {
    try {
      await this.removeLabelled([`${RUN_LABEL}=${runId}`, `${ATTEMPT_LABEL}=${attempt}`]);
    } catch (error) {
      this.options.log.warn(
        { run: runId, error: engineMessage(error) },
        'a container may have been left behind',
      );
    }
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

  /** The words of the engine go to the log, the reason to the run. */
  private startProblem(what: string, { runId, env }: ContainerSpec, error: unknown): Error {
    const words = engineMessage(error, new SecretMask(Object.values(env)));
    this.options.log.warn({ run: runId, error: words }, `container not ${what}`);
    const message = `The container could not be ${what}: ${startReason(error)}`;
    if (lacksResource(error)) return new Error(message, { cause: error });
    const isFault = engineStatus(error) === 400 || isBadCommand(error);
    return isFault ? new RunFault(message, { cause: error }) : new EngineFault(message, { cause: error });
  }

  /** Whether the engine can keep a log of limited size: Podman cannot. */
  private async hasLog(engine: Dockerode): Promise<boolean> {
    this.logDrivers ??= withLimit(this.timing.callMs, 'info', (): Promise<unknown> => engine.info()).then(
      (info) => Object(Object(info).Plugins).Log,
    );
    try {
      const drivers: unknown = await this.logDrivers;
      return Array.isArray(drivers) && drivers.includes('local');
    } catch (error) {
      this.logDrivers = null;
      throw error;
    }
  }

  private async ensureNetwork(engine: Dockerode): Promise<void> {
    const { network } = this.options;
    if (network !== undefined) await ensureNetwork(engine, network, this.timing.callMs);
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
