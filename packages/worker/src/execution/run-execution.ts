import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Tracing } from '@longshore/common/tracing/tracing';
import type { WorkerContext } from '../worker-context.js';
import type { CapacityQueue, CapacityRequest } from '../claims/capacity.js';
import type { EnginePause } from '../claims/engine-pause.js';
import { removeContainer } from './container-cleanup.js';
import { EventSender } from './event-sender.js';
import { ExecutionTrace, type TracedStep } from './execution-trace.js';
import { failureMessage, failureSummary } from './failure-message.js';
import { logNoteOf, maskedOutcome, outcomeOfError, Refused, Unsuitable, type Outcome } from './outcome.js';
import { reportEnd, type RunEnd } from './run-end.js';
import type { EventLimits } from '../logs/event-cap.js';
import { RunLog, type UnshippedLogs } from '../logs/run-log.js';
import { lossReason, pollRun } from './run-poll.js';
import { RunRequests } from './run-requests.js';
import type { ContainerSpec, RunningContainer, Runtime } from '../runtime/runtime.js';
import { NO_MASK, SecretMask } from '../secrets/secret-mask.js';
import {
  neededCapabilities,
  type ClaimedRun,
  type RunOwnership,
  type RunSecrets,
} from '../service-api/service-api.js';
import { Stopped, StopSignal, type StopReason } from './stop-signal.js';

/** How long the final event waits for the removal of a running container, in milliseconds. */
const REMOVAL_MS = 15_000;

/** Dependencies that all executions of a worker share. */
export interface ExecutionParts {
  readonly context: WorkerContext;
  readonly runtime: Runtime;
  readonly queue: CapacityQueue;
  readonly unshippedLogs: UnshippedLogs;
  readonly enginePause: EnginePause;
  readonly eventLimits: EventLimits;
  /** Null: the worker does not trace. */
  readonly tracing: Tracing | null;
  /** Interval of polls of the run's state, for a service whose heartbeats do not tell of lost runs. */
  readonly tickMs: number;
  readonly tellsLostRuns: () => boolean;
}

/** The execution of one claimed run, from the wait for capacity to the accepted final event. */
export class RunExecution {
  private readonly stopSignal = new StopSignal();
  private readonly logger: Logger;
  private readonly sender: EventSender;
  private readonly requests: RunRequests;
  /** Why this worker can never execute the run, as one sentence; null: it can. */
  private readonly unsuitable: string | null;
  /** Null: this worker can never execute the run. */
  private readonly capacity: CapacityRequest | null;
  private readonly log: RunLog;
  private readonly trace: ExecutionTrace;
  private attempt: number | null;
  private container: RunningContainer | null = null;
  private mask = NO_MASK;
  private hasEnded = false;
  /** Aborted when the final event decides, not the service's word about the run. */
  private readonly watching = new AbortController();
  /** Whether a heartbeat was told that the attempt is lost. */
  private isToldLost = false;

  /** Requests capacity at once, so that runs start in the order of their claims. */
  constructor(
    private readonly parts: ExecutionParts,
    readonly claimed: ClaimedRun,
  ) {
    const { context, queue, tracing } = parts;
    this.attempt = claimed.attempt;
    this.logger = context.logger.child({ run: claimed.id });
    this.trace = new ExecutionTrace(tracing, claimed, context.workerId);
    this.sender = new EventSender(context, {
      runId: claimed.id,
      attempt: () => this.attempt,
      executionId: randomUUID(),
      trace: this.trace.context,
      logger: this.logger,
      onLost: (why) => this.stop({ kind: 'lost', why }),
    });
    this.log = new RunLog(context, { runId: claimed.id, logger: this.logger }, parts.eventLimits);
    this.requests = new RunRequests(context, claimed, this.stopSignal, this.logger);
    this.unsuitable = whyUnsuitable(parts, claimed);
    this.capacity = this.unsuitable === null ? queue.request(claimed.constraints) : null;
  }

  /** Whether heartbeats list the run. */
  get isHeld(): boolean {
    return !this.isToldLost;
  }

  /** Stops the execution if the service's answer to a heartbeat that listed it says that the attempt is lost. */
  onOwnership(run: RunOwnership): void {
    const why = lossReason(run, this.parts.context.workerId, this.attempt);
    if (why === null) return;
    this.isToldLost = true;
    if (!this.watching.signal.aborted) this.stop({ kind: 'lost', why });
  }

  /** Ends the execution early, at any step. */
  stop(reason: StopReason): void {
    if (reason.kind === 'lost') this.sender.close('lost');
    if (reason.kind === 'key-refused') {
      this.sender.close('given-up');
      this.log.close();
    }
    this.stopSignal.stop(reason);
  }

  /** Stops waiting for an answer to the final event. */
  giveUpReporting(): void {
    this.sender.close('given-up');
  }

  /** Executes the run and removes its container. Never rejects. */
  async run(): Promise<RunEnd> {
    const outcome = maskedOutcome(await this.execute(), this.mask);
    if (outcome.kind === 'failed' && outcome.origin === 'engine')
      this.parts.enginePause.recordFault(this.claimed.image);
    this.watching.abort();
    const removed = this.removeContainer();
    // Report only when no container works on the run any more, so that two never do.
    if (!this.hasEnded) await Promise.race([removed, this.parts.context.clock.sleep(REMOVAL_MS)]);
    await this.log.finish(logNoteOf(outcome));
    const end = await this.trace.step('report', () => reportEnd(outcome, this.sender, this.logger));
    this.trace.end(outcome, end);
    this.parts.unshippedLogs.add(this.log);
    await removed;
    return end;
  }

  private async execute(): Promise<Outcome> {
    try {
      return await this.runSteps();
    } catch (error) {
      return error instanceof Stopped ? this.outcomeOfStop(error.reason) : outcomeOfError(error);
    }
  }

  /** Releases the capacity as soon as the container is removed. */
  private async removeContainer(): Promise<void> {
    if (this.container !== null) {
      await removeContainer(this.container, { ...this.parts.context, logger: this.logger });
    }
    this.capacity?.release();
  }

  private outcomeOfStop(reason: StopReason): Outcome {
    switch (reason.kind) {
      case 'lost':
        this.logger.info({ why: reason.why }, 'stopped: the run is lost');
        return { kind: 'lost', why: reason.why };
      case 'key-refused':
        return { kind: 'lost', why: 'the service refuses this worker' };
      case 'shutting-down': {
        const message = `Worker '${this.parts.context.workerId}' is shutting down`;
        return { kind: 'failed', origin: 'shutdown', cause: 'infrastructure', summary: message, message };
      }
    }
  }

  private async runSteps(): Promise<Outcome> {
    const { id: runId, image, inputs, constraints, container } = this.claimed;
    const preparing = new AbortController();
    // Pull while the service is asked for the run.
    const pulled = this.pull(AbortSignal.any([this.stopSignal.signal, preparing.signal]));
    pulled.catch(() => undefined);
    try {
      const { attempt, outputTemplate } = await this.prepare();
      const { gpuId, secrets } = await this.stopSignal.abortable(pulled);
      await this.reportStart(gpuId);
      const { command, args } = container;
      const env = { ...container.env, ...secrets.env };
      const limits = { ...constraints, gpuId };
      const spec = { runId, attempt, image, inputs, outputTemplate, limits, env, command, args };
      return await this.trace.step('container', (step) =>
        this.runContainer({ ...spec, trace: step.context }, step),
      );
    } finally {
      preparing.abort();
    }
  }

  /** Fetches what the claim lacks, and starts to watch a run of an older service. */
  private async prepare(): Promise<{ readonly attempt: number; readonly outputTemplate: JsonObject }> {
    const { currentAttempt: attempt, outputs: outputTemplate } = await this.requests.getRun(this.attempt);
    this.attempt = attempt;
    this.log.open(attempt);
    void this.poll(attempt);
    if (this.unsuitable !== null) throw new Unsuitable(this.unsuitable);
    return { attempt, outputTemplate };
  }

  /** Waits for capacity, then reads the secrets and pulls the image. */
  private async pull(signal: AbortSignal): Promise<Preparation> {
    const { image } = this.claimed;
    const { gpuId } = await (this.capacity?.granted ?? NEVER);
    signal.throwIfAborted();
    const secrets = await this.requests.getSecrets(this.attempt);
    this.mask = new SecretMask(Object.values(secrets.env));
    signal.throwIfAborted();
    this.logger.info({ image }, 'pulling the image');
    await this.trace.step('pull image', () => this.parts.runtime.pull(image, signal, secrets.registry));
    return { gpuId, secrets };
  }

  private async poll(attempt: number): Promise<void> {
    const { context, tickMs, tellsLostRuns: isTold } = this.parts;
    const polled = { runId: this.claimed.id, attempt, tickMs, logger: this.logger, isTold };
    const why = await pollRun(context, polled, this.watching.signal);
    if (why !== null) this.stop({ kind: 'lost', why });
  }

  private async reportStart(gpuId: number | null): Promise<void> {
    this.stopSignal.check();
    const { workerId } = this.parts.context;
    const payload = { worker_id: workerId, ...(gpuId === null ? {} : { gpu_id: gpuId }) };
    const started = { type: 'STARTED', msg: `Started by worker '${workerId}'`, payload };
    const delivery = await this.stopSignal.abortable(this.sender.deliver(started));
    this.stopSignal.check();
    if (delivery.kind === 'closed') throw new Stopped({ kind: 'key-refused' });
    if (delivery.kind === 'refused') {
      throw new Refused(`The service refused the start of the run (${delivery.status}): ${delivery.detail}`);
    }
  }

  private async runContainer(spec: ContainerSpec, step: TracedStep): Promise<Outcome> {
    this.stopSignal.check();
    const container = await this.parts.runtime.start(spec);
    this.container = container;
    this.parts.enginePause.recordStart();
    const sink = { sender: this.sender, mask: this.mask, signal: this.stopSignal.signal };
    const reading = this.log.read(container.lines, sink);
    const exit = await this.stopSignal.abortable(container.exit);
    this.hasEnded = true;
    step.set({ 'process.exit.code': exit.exitCode });
    await this.stopSignal.abortable(reading);
    this.logger.info({ exitCode: exit.exitCode, outOfMemory: exit.outOfMemory }, 'the container has ended');
    if (exit.exitCode !== 0) {
      const summary = failureSummary(exit, spec.limits.ramMb);
      const message = failureMessage(summary, this.log.lastLines());
      const cause = exit.outOfMemory ? 'oom' : 'exit';
      const { exitCode } = exit;
      return { kind: 'failed', origin: 'container', cause, exitCode, summary, message };
    }
    return { kind: 'completed', outputs: await this.stopSignal.abortable(container.readOutputs()) };
  }
}

interface Preparation {
  /** The GPU that the container gets; null: none. */
  readonly gpuId: number | null;
  readonly secrets: RunSecrets;
}

const NEVER = new Promise<never>(() => undefined);

/** Why this worker can never execute the run, as one sentence; null: it can. */
function whyUnsuitable(
  { runtime, queue }: ExecutionParts,
  { container, constraints }: ClaimedRun,
): string | null {
  const missing = neededCapabilities(container).filter((name) => !runtime.capabilities.includes(name));
  if (missing.length > 0)
    return `The run needs ${missing.join(', ')}, which the runtime ${runtime.name} of this worker does not support`;
  const unmet = queue.capacity.unmetRequirement(constraints);
  return unmet === null
    ? null
    : `${unmet}. With SERVICE_SCHEDULER=fit the service gives runs only to workers that have the resources`;
}
