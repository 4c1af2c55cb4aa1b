import type { FileParts } from '../artifacts/download.js';
import type { Fetched } from '../artifacts/fetch-sources.js';
import { targetFolders } from '../artifacts/pattern.js';
import { Unmet, type CapacityQueue, type CapacityRequest } from '../claims/capacity.js';
import type { GpuWatch } from '../claims/gpu-watch.js';
import type { EnginePause } from '../claims/engine-pause.js';
import {
  MachineUnable,
  NO_TIMES,
  NOTHING_READ,
  usesGpus,
  type AdoptedContainer,
  type ContainerTimes,
  type ContainerSpec,
  type FoundContainer,
  type KeptContainer,
  type LogLine,
  type OutputEnds,
  type RunningContainer,
  type Runtime,
} from '../runtime/runtime.js';
import { errorText } from '@longshore/common/errors';
import type { TracedStep } from '../execution/execution-trace.js';
import { goneAttempt, Unsuitable, type Outcome } from '../execution/outcome.js';
import type { RunEnd } from '../execution/run-end.js';
import { Stopped, type StopReason } from '../execution/stop-signal.js';
import { RecordedEvents } from '../logs/event-forwarder.js';
import { ENGINE_WARNING } from '../logs/log-events.js';
import { runSpec } from '../execution/run-spec.js';
import { placesOf } from '../execution/attempt-artifacts.js';
import { gpusPayload } from './gpus-payload.js';
import { retryCleanup } from '../execution/retry-cleanup.js';
import { missingCapabilities } from '../execution/executor.js';
import { RunExecution, type ExecutionParts } from '../execution/run-execution.js';
import {
  secretFiles,
  type ClaimedRun,
  type LogPosition,
  type RunSecrets,
  type RunView,
} from '../service-api/service-api.js';

/** Dependencies of all executions on this machine. */
export interface ContainerParts extends ExecutionParts {
  readonly runtime: Runtime;
  readonly queue: CapacityQueue;
  readonly enginePause: EnginePause;
  readonly gpus: GpuWatch;
  /** Where the files of runs come from. */
  readonly files: FileParts;
}

/** What an earlier process of this worker has left of an attempt. */
export interface LeftAttempt {
  /** Null: it has no container on this machine. */
  readonly found: FoundContainer | null;
  readonly attempt: number;
  readonly log: LogPosition;
  /** Whether the service has accepted STARTED. */
  readonly isStarted: boolean;
}

/**
 * The execution of one run in a container of this machine: from the wait for capacity on, or from where an earlier process of this
 * worker has ended.
 */
export class ContainerExecution extends RunExecution {
  /** Why this worker cannot execute the run; null: it can. */
  private readonly unsuitable: Unsuitable | null;
  /** Null: this worker can never execute the run. */
  private readonly capacity: CapacityRequest | null;
  private container: RunningContainer | null = null;
  private hasEnded = false;
  private removed: Promise<void> | null = null;
  private readonly releaseImage: () => void;
  /** Null: an earlier process has left none. */
  private readonly adopted: Promise<AdoptedContainer> | null;

  /** Requests capacity at once, so that runs start in the order of their claims. */
  constructor(
    private readonly parts: ContainerParts,
    claimed: ClaimedRun,
    private readonly left: LeftAttempt | null = null,
  ) {
    super(parts, claimed);
    const { runtime, queue } = parts;
    const { constraints, image } = claimed;
    const found = left?.found ?? null;
    const missing = left === null ? missingCapabilities(runtime, claimed) : null;
    const unmet = left === null ? queue.capacity.unmetRequirement(constraints) : null;
    this.unsuitable =
      missing === null ? (unmet === null ? null : this.tooLarge(unmet)) : new Unsuitable(missing);
    if (found !== null) this.capacity = queue.take(constraints);
    else this.capacity = left === null && this.unsuitable === null ? queue.request(constraints) : null;
    this.releaseImage = runtime.keep(image);
    this.adopted = found === null || left === null ? null : this.adopt(found, left.log);
  }

  /** A worker that leaves its containers does so at once. What has no container yet starts again elsewhere. */
  override drain(): void {
    if (!this.parts.leavesContainers) return;
    if (this.hasEnded) this.sender.stopRepeating();
    this.stop({ kind: 'shutting-down' });
  }

  private get mayStay(): boolean {
    return this.adopted !== null || this.keptContainer !== null;
  }

  protected override outcomeOfStop(reason: StopReason): Outcome {
    if (reason.kind !== 'lost' && this.parts.leavesContainers && this.mayStay) return { kind: 'left' };
    return super.outcomeOfStop(reason);
  }

  protected override endKey(): string | null {
    return this.keptContainer === null ? null : `${this.keptContainer.id}:end`;
  }

  private get keptContainer(): KeptContainer | null {
    return this.container?.kept ?? null;
  }

  protected async runSteps(): Promise<Outcome> {
    if (this.left !== null) return this.goOn(this.left);
    const { constraints } = this.claimed;
    const preparing = new AbortController();
    // Pull while the service is asked for the run.
    const viewed = this.prepare();
    const pulled = this.pull(viewed, AbortSignal.any([this.stopSignal.signal, preparing.signal]));
    pulled.catch(() => undefined);
    let fetched: Fetched | null = null;
    try {
      const view = await viewed;
      const { gpuIds, secrets, image } = await this.stopSignal.abortable(pulled);
      fetched = await this.fetchFiles(viewed, this.parts.files);
      const artifacts = placesOf(this.claimed.artifacts, fetched);
      await this.reportStart(gpusPayload(gpuIds, constraints.gpus > 0));
      return await this.trace.step('container', async (step) => {
        const spec = runSpec(this.claimed, view, secrets, step.context);
        const env = { ...spec.env, ...secrets.env };
        const limits = { ...constraints, gpuIds };
        const secretNames = Object.keys(secrets.env);
        const { signedQueries } = this;
        const own = { image, env, limits, secretNames, signedQueries, artifacts };
        const container = await this.runContainer({ ...spec, ...own });
        // At once: output that nobody reads at the end of a process is lost.
        const followed = this.follow(container, step, NOTHING_READ);
        await fetched?.release();
        return followed;
      });
    } finally {
      preparing.abort();
      await fetched?.release();
    }
  }

  /** A container that has ended stays until its end is reported, so that no crash loses its outputs. */
  protected async beforeReport(outcome: Outcome): Promise<void> {
    if (outcome.kind === 'left') return;
    if (outcome.kind === 'failed' && outcome.origin === 'engine')
      this.parts.enginePause.recordFault(outcome.summary);
    if (this.hasEnded && this.keptContainer !== null) {
      this.capacity?.release();
      return;
    }
    this.removed = this.removeContainer();
    if (!this.hasEnded) await this.forRemoval(this.removed);
  }

  protected times(): ContainerTimes {
    return this.container?.times() ?? NO_TIMES;
  }

  protected async afterReport(end: RunEnd): Promise<void> {
    // The next process repeats a report without an answer.
    const isLeft = end === 'left' || (end === 'unreported' && this.removed === null);
    if (!isLeft) await (this.removed ?? this.removeContainer());
  }

  protected whyUnsuitable(): Unsuitable | null {
    return this.unsuitable;
  }

  /** Releases the capacity as soon as the container is removed. */
  private async removeContainer(): Promise<void> {
    const container = this.container ?? (await this.adopted?.catch(() => null))?.container;
    const found = this.left?.found ?? null;
    const cleanup = { ...this.parts.context, logger: this.logger };
    if (container !== undefined) {
      const end = (graceSeconds: number): Promise<void> =>
        retryCleanup('stop the container', () => container.stop(graceSeconds), cleanup);
      const { killed } = this;
      const onKill = (): void => void end(0);
      killed.addEventListener('abort', onKill, { once: true });
      await end(killed.aborted ? 0 : this.claimed.container.stop_grace_s);
      killed.removeEventListener('abort', onKill);
      // The next start of the worker removes one that remains.
      await retryCleanup('remove the container', () => container.remove(), cleanup);
    } else if (found !== null) {
      // Its program would go on beside that of the next attempt.
      await retryCleanup('remove the container', () => this.parts.runtime.removeFound(found), cleanup);
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
    void this.reportPreparing(viewed, `Pulling the image ${name}`, over.signal);
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
      // What was interrupted is no fault of the machine.
      this.stopSignal.check();
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

  private async runContainer(spec: ContainerSpec): Promise<RunningContainer> {
    this.stopSignal.check();
    const container = await this.start(spec);
    this.container = container;
    this.parts.enginePause.recordStart();
    if (spec.limits.gpuIds.length > 0) this.parts.gpus.recordStart();
    for (const msg of container.warnings) await this.sender.push({ type: ENGINE_WARNING, msg });
    return container;
  }

  /** Follows the container that an earlier process has left, or reports that there is none. */
  private async goOn({ found, attempt, log, isStarted }: LeftAttempt): Promise<Outcome> {
    this.begin(attempt, { from: log });
    const { adopted } = this;
    if (adopted === null || found === null) return goneAttempt(isStarted);
    const { container, secrets, signedQueries, stored } = await this.stopSignal.abortable(adopted);
    this.container = container;
    this.signedQueries = signedQueries;
    this.maskGiven(secrets, await this.readSecretsAgain());
    if (!isStarted) {
      const { gpuIds, gpus } = this.claimed.constraints;
      await this.reportStart(gpusPayload(gpuIds, gpus > 0), `${found.id}:started`);
    }
    const recorded = new RecordedEvents(await this.requests.getTimeline(), attempt);
    return this.trace.step('container', (step) => this.follow(container, step, stored, recorded));
  }

  /** As the service gives them now: the program may have got others. None if it does not give them. */
  private async readSecretsAgain(): Promise<Readonly<Record<string, string | Buffer>>> {
    try {
      const { env, files } = await this.requests.getSecrets(this.attempt);
      return { ...env, ...files };
    } catch (error) {
      if (error instanceof Stopped) throw error;
      this.logger.warn({ error: errorText(error) }, 'could not read the secrets of the run again');
      return {};
    }
  }

  private adopt(found: FoundContainer, { cursor }: LogPosition): Promise<AdoptedContainer> {
    const { container } = this.claimed;
    const { mounts } = container;
    const folders = targetFolders(this.claimed.artifacts);
    const adoption = { mounts, folders, secretFiles: secretFiles(container), cursor };
    const adopted = this.parts.runtime.adopt(found, adoption);
    adopted.catch(() => undefined);
    return adopted;
  }

  /** @param stored how much of its output earlier processes have stored. @param recorded null: there were none */
  private async follow(
    container: RunningContainer,
    step: TracedStep,
    stored: OutputEnds,
    recorded: RecordedEvents | null = null,
  ): Promise<Outcome> {
    const { kept } = container;
    const rereading = kept !== null && {
      keyOf: (number: number, { stream, bytes }: LogLine) =>
        `${kept.id}:${stream}:${bytes?.line ?? `n${number}`}`,
      isRepeated: recorded !== null,
      recorded: recorded ?? NONE_RECORDED,
      counted: { cursors: kept.cursors, stored },
    };
    const sink = {
      sender: this.sender,
      mask: this.mask,
      signal: this.stopSignal.signal,
      ...(rereading !== false && { rereading }),
    };
    const reading = this.log.read(this.shownLines(container.lines), sink);
    const exit = await this.stopSignal.abortable(container.exit);
    this.hasEnded = true;
    step.set({ 'process.exit.code': exit.exitCode });
    await this.stopSignal.abortable(reading);
    this.logger.info({ exitCode: exit.exitCode, outOfMemory: exit.outOfMemory }, 'the container has ended');
    const left = await this.storeFiles((task) => container.readFiles(task), exit.exitCode === 0);
    return this.outcomeOfExit(exit, left, () => container.readOutputs());
  }
}

interface Preparation {
  /** The GPUs that the container gets. */
  readonly gpuIds: readonly number[];
  readonly secrets: RunSecrets;
  /** What the container is created from. */
  readonly image: string;
}

const NONE_RECORDED = new RecordedEvents([], 1);

const NEVER = new Promise<never>(() => undefined);
