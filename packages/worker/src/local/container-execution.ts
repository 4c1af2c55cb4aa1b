import type { JsonObject } from '@longshore/common/json/json-value';
import { Unmet, type CapacityQueue, type CapacityRequest } from '../claims/capacity.js';
import type { GpuWatch } from '../claims/gpu-watch.js';
import type { EnginePause } from '../claims/engine-pause.js';
import {
  MachineUnable,
  NO_TIMES,
  usesGpus,
  type ContainerTimes,
  type ContainerSpec,
  type RunningContainer,
  type Runtime,
} from '../runtime/runtime.js';
import type { TracedStep } from '../execution/execution-trace.js';
import { Unsuitable, type Outcome } from '../execution/outcome.js';
import { ENGINE_WARNING } from '../logs/log-events.js';
import { runSpec } from '../execution/run-spec.js';
import { retryCleanup } from '../execution/retry-cleanup.js';
import { missingCapabilities, RunExecution, type ExecutionParts } from '../execution/run-execution.js';
import type { ClaimedRun, RunSecrets, RunView } from '../service-api/service-api.js';

/** A pull that takes longer is told on the timeline, in milliseconds. */
const LONG_PULL_MS = 2_000;

/** Dependencies of all executions on this machine. */
export interface ContainerParts extends ExecutionParts {
  readonly runtime: Runtime;
  readonly queue: CapacityQueue;
  readonly enginePause: EnginePause;
  readonly gpus: GpuWatch;
}

/** The execution of one claimed run in a container of this machine, from the wait for capacity on. */
export class ContainerExecution extends RunExecution {
  /** Why this worker cannot execute the run; null: it can. */
  private readonly unsuitable: Unsuitable | null;
  /** Null: this worker can never execute the run. */
  private readonly capacity: CapacityRequest | null;
  private container: RunningContainer | null = null;
  private hasEnded = false;
  private removed: Promise<void> = Promise.resolve();
  private readonly releaseImage: () => void;

  /** Requests capacity at once, so that runs start in the order of their claims. */
  constructor(
    private readonly parts: ContainerParts,
    claimed: ClaimedRun,
  ) {
    super(parts, claimed);
    const { runtime, queue } = parts;
    const missing = missingCapabilities(runtime, claimed);
    const unmet = queue.capacity.unmetRequirement(claimed.constraints);
    this.unsuitable =
      missing === null ? (unmet === null ? null : this.tooLarge(unmet)) : new Unsuitable(missing);
    this.capacity = this.unsuitable === null ? queue.request(claimed.constraints) : null;
    this.releaseImage = runtime.keep(claimed.image);
  }

  protected async runSteps(): Promise<Outcome> {
    const { constraints } = this.claimed;
    const preparing = new AbortController();
    // Pull while the service is asked for the run.
    const viewed = this.prepare();
    const pulled = this.pull(viewed, AbortSignal.any([this.stopSignal.signal, preparing.signal]));
    pulled.catch(() => undefined);
    try {
      const view = await viewed;
      const { gpuIds, secrets, image } = await this.stopSignal.abortable(pulled);
      await this.reportStart(gpusPayload(gpuIds, constraints.gpus > 0));
      return await this.trace.step('container', (step) => {
        const spec = runSpec(this.claimed, view, secrets, step.context);
        const env = { ...spec.env, ...secrets.env };
        return this.runContainer({ ...spec, image, env, limits: { ...constraints, gpuIds } }, step);
      });
    } finally {
      preparing.abort();
    }
  }

  protected async beforeReport(outcome: Outcome): Promise<void> {
    if (outcome.kind === 'failed' && outcome.origin === 'engine')
      this.parts.enginePause.recordFault(outcome.summary);
    this.removed = this.removeContainer();
    if (!this.hasEnded) await this.forRemoval(this.removed);
  }

  protected times(): ContainerTimes {
    return this.container?.times() ?? NO_TIMES;
  }

  protected afterReport(): Promise<void> {
    return this.removed;
  }

  protected whyUnsuitable(): Unsuitable | null {
    return this.unsuitable;
  }

  /** Releases the capacity as soon as the container is removed. */
  private async removeContainer(): Promise<void> {
    const { container } = this;
    if (container !== null) {
      const cleanup = { ...this.parts.context, logger: this.logger };
      const end = (graceSeconds: number): Promise<void> =>
        retryCleanup('stop the container', () => container.stop(graceSeconds), cleanup);
      const { killed } = this;
      const onKill = (): void => void end(0);
      killed.addEventListener('abort', onKill, { once: true });
      await end(killed.aborted ? 0 : this.claimed.container.stop_grace_s);
      killed.removeEventListener('abort', onKill);
      // The next start of the worker removes one that remains.
      await retryCleanup('remove the container', () => container.remove(), cleanup);
    }
    this.capacity?.release();
    this.releaseImage();
  }

  /** Waits for capacity, then reads the secrets and pulls the image. */
  private async pull(viewed: Promise<RunView>, signal: AbortSignal): Promise<Preparation> {
    const { image: name } = this.claimed;
    const { gpuIds } = await (this.capacity?.granted ?? NEVER).catch((error: unknown) => {
      throw error instanceof Unmet ? this.tooLarge(error.message) : error;
    });
    signal.throwIfAborted();
    const secrets = await this.readSecrets();
    signal.throwIfAborted();
    this.logger.info({ image: name }, 'pulling the image');
    const over = new AbortController();
    void this.reportPull(viewed, over.signal);
    try {
      const image = await this.trace.step('pull image', () =>
        this.parts.runtime.pull(name, signal, secrets.registry),
      );
      return { gpuIds, secrets, image };
    } finally {
      over.abort();
    }
  }

  private async start(spec: ContainerSpec): Promise<RunningContainer> {
    try {
      return await this.parts.runtime.start(spec, this.stopSignal.signal);
    } catch (error) {
      if (error instanceof MachineUnable && error.ability === 'gpus')
        this.parts.gpus.recordFault(error.words);
      throw error;
    }
  }

  /** @param unmet the requirement that this machine cannot meet now */
  private tooLarge(unmet: string): Unsuitable {
    const { inabilities } = this.parts.context;
    const { constraints } = this.claimed;
    const lost =
      usesGpus(constraints) && inabilities.has('gpus')
        ? 'gpus'
        : constraints.ramMb > 0 &&
            inabilities.has('ram_limit') &&
            this.parts.queue.capacity.offeredRamMb === 0
          ? 'ram_limit'
          : null;
    const advice =
      'With SERVICE_SCHEDULER=fit the service gives runs only to workers that have the resources';
    return new Unsuitable(`${unmet}. ${advice}`, lost);
  }

  /** Reports that the image is being pulled: at once if the run must start in time, else if it takes long. Never rejects. */
  private async reportPull(viewed: Promise<RunView>, over: AbortSignal): Promise<void> {
    const view = await viewed.catch(() => null);
    if (view?.mustStartInTime === false) await this.parts.context.clock.sleep(LONG_PULL_MS, over);
    if (view === null || over.aborted || this.stopSignal.signal.aborted) return;
    void this.sender.push({ type: 'PREPARING', msg: `Pulling the image ${this.claimed.image}` });
  }

  private async runContainer(spec: ContainerSpec, step: TracedStep): Promise<Outcome> {
    this.stopSignal.check();
    const container = await this.start(spec);
    this.container = container;
    this.parts.enginePause.recordStart();
    if (spec.limits.gpuIds.length > 0) this.parts.gpus.recordStart();
    for (const msg of container.warnings) await this.sender.push({ type: ENGINE_WARNING, msg });
    const sink = { sender: this.sender, mask: this.mask, signal: this.stopSignal.signal };
    const reading = this.log.read(container.lines, sink);
    const exit = await this.stopSignal.abortable(container.exit);
    this.hasEnded = true;
    step.set({ 'process.exit.code': exit.exitCode });
    await this.stopSignal.abortable(reading);
    this.logger.info({ exitCode: exit.exitCode, outOfMemory: exit.outOfMemory }, 'the container has ended');
    if (exit.exitCode !== 0) return this.failedExit(exit, spec.limits.ramMb);
    return this.completed(await this.stopSignal.abortable(container.readOutputs()));
  }
}

interface Preparation {
  /** The GPUs that the container gets. */
  readonly gpuIds: readonly number[];
  readonly secrets: RunSecrets;
  /** What the container is created from. */
  readonly image: string;
}

const NEVER = new Promise<never>(() => undefined);

/** What STARTED says of the GPUs of a run; their list where it has several, or has one alone. */
function gpusPayload(ids: readonly number[], isExclusive: boolean): JsonObject {
  const [first] = ids;
  if (first === undefined) return {};
  return { gpu_id: first, ...((isExclusive || ids.length > 1) && { gpu_ids: [...ids] }) };
}
