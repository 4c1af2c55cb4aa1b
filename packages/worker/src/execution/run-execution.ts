import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import type { Tracing } from '@longshore/common/tracing/tracing';
import type { WorkerContext } from '../worker-context.js';
import { Backoff } from '../backoff.js';
import type { CapacityQueue, Place } from '../claims/capacity-queue.js';
import type { Share } from '../claims/capacity.js';
import { removeContainer } from './container-cleanup.js';
import { EventSender } from './event-sender.js';
import { ExecutionTrace, type TracedStep } from './execution-trace.js';
import { clipMessage, errorText, failureMessage, failureSummary } from './failure-message.js';
import type { LingeringLogs } from '../logs/lingering-logs.js';
import { reportEnd, type Outcome, type RunEnd } from './run-end.js';
import type { RunFolder, RunFolders } from './run-folder.js';
import { RunLog } from '../logs/run-log.js';
import { whyNotOurs } from './run-ownership.js';
import { watchRun } from './run-watch.js';
import { RunFault } from '../runtime/run-fault.js';
import type { ContainerSpec, RunningContainer, Runtime } from '../runtime/runtime.js';
import { isKeyRefusal, type ClaimedRun, type RunView } from '../service-api/service-api.js';
import { Stopped, StopSignal, type StopReason } from './stop-signal.js';

const RETRY = { firstMs: 500, maxMs: 15_000 };

/** How long the report of the end waits for the container to be gone, in milliseconds. */
const CLEARING_MS = 15_000;

/** What executions share. */
export interface ExecutionParts {
  readonly context: WorkerContext;
  readonly runtime: Runtime;
  readonly folders: RunFolders;
  readonly capacity: CapacityQueue;
  /** Takes the logs of executions that have ended. */
  readonly lingering: LingeringLogs;
  /** Null: this worker does not trace. */
  readonly tracing: Tracing | null;
  /** How often the run's state is looked at. */
  readonly tickMs: number;
}

/** One claimed run on its way through this worker: from the wait for capacity to the acknowledged last event. */
export class RunExecution {
  private readonly stopSignal = new StopSignal();
  private readonly logger: Logger;
  private readonly sender: EventSender;
  private readonly whyNever: string | null;
  private readonly place: Place;
  private readonly log: RunLog;
  private readonly trace: ExecutionTrace;
  private attempt: number | null;
  private folder: RunFolder | null = null;
  private container: RunningContainer | null = null;
  private hasEnded = false;

  /** Takes a place in the line for capacity at once: the order of claims is the order of starts. */
  constructor(
    private readonly parts: ExecutionParts,
    readonly claimed: ClaimedRun,
  ) {
    this.attempt = claimed.attempt;
    this.logger = parts.context.logger.child({ run: claimed.id });
    this.trace = new ExecutionTrace(parts.tracing, claimed, parts.context.workerId);
    this.sender = new EventSender(parts.context, {
      runId: claimed.id,
      attempt: () => this.attempt,
      executionId: randomUUID(),
      trace: this.trace.place,
      logger: this.logger,
      onLost: (why) => this.stop({ kind: 'not-ours', why }),
    });
    this.log = new RunLog(parts.context, { runId: claimed.id, logger: this.logger });
    this.whyNever = parts.capacity.whyNever(claimed.constraints);
    this.place = this.whyNever === null ? parts.capacity.enter(claimed.constraints) : NO_PLACE;
  }

  /** Ends the execution early, in whatever step it is. */
  stop(reason: StopReason): void {
    if (reason.kind === 'not-ours') this.sender.close('lost');
    if (reason.kind === 'key-refused') {
      this.sender.close('given-up');
      this.log.close();
    }
    this.stopSignal.ask(reason);
  }

  /** Stops waiting for the service to take the last event. */
  giveUpReporting(): void {
    this.sender.close('given-up');
  }

  /** Goes all the way. Never rejects; container and folder are gone at the end. */
  async run(): Promise<RunEnd> {
    const watching = new AbortController();
    const outcome = await this.work(watching.signal);
    // The last event says how the run ended; what the service says from here on is its answer to that.
    watching.abort();
    const cleared = this.clearContainer();
    // Nobody may be given the run anew while its container still works on it; one that has ended is only rubbish.
    if (!this.hasEnded) await Promise.race([cleared, this.parts.context.clock.sleep(CLEARING_MS)]);
    await this.log.finish(noteOf(outcome));
    const end = await this.trace.step('report', () => reportEnd(outcome, this.sender, this.logger));
    this.trace.end(outcome, end);
    this.parts.lingering.add(this.log);
    await cleared;
    try {
      await this.folder?.remove();
    } catch (error) {
      this.logger.error({ error: errorText(error) }, 'could not delete the folder of the run');
    }
    return end;
  }

  private async work(watching: AbortSignal): Promise<Outcome> {
    try {
      return await this.pipeline(watching);
    } catch (error) {
      if (error instanceof Stopped) return this.outcomeOfStop(error.reason);
      return failedByStep(error);
    }
  }

  /** Frees the run's share of this machine as soon as its container is gone. */
  private async clearContainer(): Promise<void> {
    if (this.container !== null) {
      await removeContainer(this.container, { ...this.parts.context, logger: this.logger });
    }
    this.place.leave();
  }

  private outcomeOfStop(reason: StopReason): Outcome {
    switch (reason.kind) {
      case 'not-ours':
        this.logger.info({ why: reason.why }, 'stopped: the run is no longer ours');
        return { kind: 'gone', why: reason.why };
      case 'key-refused':
        return { kind: 'gone', why: 'the service refuses this worker' };
      case 'shutting-down': {
        const message = `Worker '${this.parts.context.workerId}' is shutting down`;
        return { kind: 'failed', cause: 'shutdown', summary: message, message };
      }
    }
  }

  private async pipeline(watching: AbortSignal): Promise<Outcome> {
    const { id: runId, image, constraints } = this.claimed;
    const preparing = new AbortController();
    // The image comes while the service is asked: neither needs the other, and both take their time.
    const pulled = this.pull(AbortSignal.any([this.stopSignal.signal, preparing.signal]));
    pulled.catch(() => undefined);
    try {
      const { attempt, folder } = await this.prepare(watching);
      const share = await this.stopSignal.abortable(pulled);
      await this.reportStart(share);
      const limits = { ...constraints, gpuId: share.gpuId };
      return await this.trace.step('container', (step) =>
        this.execute({ runId, attempt, image, folder: folder.path, limits, trace: step.place }, step),
      );
    } finally {
      preparing.abort();
    }
  }

  /** Makes sure that the run is ours, begins to watch it, and lays out its folder. */
  private async prepare(
    watching: AbortSignal,
  ): Promise<{ readonly attempt: number; readonly folder: RunFolder }> {
    const { id: runId, inputs } = this.claimed;
    const { currentAttempt: attempt, outputs: outputTemplate } = await this.fetchRun();
    this.log.open(attempt);
    void this.watch(attempt, watching);
    // Held against this machine: a larger one could execute it, and should get the chance.
    if (this.whyNever !== null) throw new Error(this.whyNever);
    const folder = await this.parts.folders.create({ runId, attempt, inputs, outputTemplate });
    this.folder = folder;
    return { attempt, folder };
  }

  /** Pulls the image as soon as there is room for the run on this machine. */
  private async pull(signal: AbortSignal): Promise<Share> {
    const { image } = this.claimed;
    const share = await this.place.granted;
    signal.throwIfAborted();
    this.logger.info({ image }, 'pulling the image');
    await this.trace.step('pull image', () => this.parts.runtime.pull(image, signal));
    return share;
  }

  /** Asks for the run until there is an answer, and makes sure that the service sees it in our hands. */
  private async fetchRun(): Promise<RunView> {
    const { api, clock, random, workerId, onKeyRefused } = this.parts.context;
    const backoff = new Backoff(RETRY, random);
    for (;;) {
      this.stopSignal.check();
      const answer = await this.stopSignal.abortable(api.getRun(this.claimed.id));
      if (answer.kind === 'refused') {
        if (isKeyRefusal(answer)) {
          onKeyRefused(answer);
          throw new Stopped({ kind: 'key-refused' });
        }
        throw new Error(`The service refused to show the run (${answer.status}): ${answer.detail}`);
      }
      if (answer.kind === 'ok') {
        const why = whyNotOurs(answer.value, workerId, this.attempt);
        if (why !== null) throw new Stopped({ kind: 'not-ours', why });
        this.attempt = answer.value.currentAttempt;
        return answer.value;
      }
      this.logger.warn({ reason: answer.reason }, 'the service does not show the run yet, trying on');
      await clock.sleep(backoff.nextMs(answer.retryAfterSeconds), this.stopSignal.signal);
    }
  }

  private async watch(attempt: number, signal: AbortSignal): Promise<void> {
    const { context, tickMs } = this.parts;
    const watched = { runId: this.claimed.id, attempt, tickMs, logger: this.logger };
    const why = await watchRun(context, watched, signal);
    if (why !== null) this.stop({ kind: 'not-ours', why });
  }

  private async reportStart({ gpuId }: Share): Promise<void> {
    this.stopSignal.check();
    const { workerId } = this.parts.context;
    const payload = { worker_id: workerId, ...(gpuId === null ? {} : { gpu_id: gpuId }) };
    const started = { type: 'STARTED', msg: `Started by worker '${workerId}'`, payload };
    const delivery = await this.stopSignal.abortable(this.sender.deliver(started));
    this.stopSignal.check();
    if (delivery.kind === 'closed') throw new Stopped({ kind: 'key-refused' });
    if (delivery.kind === 'refused') {
      throw new Error(`The service refused the start of the run (${delivery.status}): ${delivery.detail}`);
    }
  }

  private async execute(spec: ContainerSpec, step: TracedStep): Promise<Outcome> {
    this.stopSignal.check();
    const container = await this.parts.runtime.start(spec);
    this.container = container;
    const sinks = { sender: this.sender, signal: this.stopSignal.signal };
    const reading = this.log.read(container.lines, sinks);
    const exit = await this.stopSignal.abortable(container.exit);
    this.hasEnded = true;
    step.set({ 'process.exit.code': exit.exitCode });
    await this.stopSignal.abortable(reading);
    this.logger.info({ exitCode: exit.exitCode, outOfMemory: exit.outOfMemory }, 'the container has ended');
    if (exit.exitCode !== 0) {
      const summary = failureSummary(exit, spec.limits.ramMb);
      const message = failureMessage(summary, this.log.lastLines());
      return { kind: 'failed', cause: 'container', summary, message };
    }
    return { kind: 'completed', outputs: await this.folder?.readOutputs() };
  }
}

function failedByStep(error: unknown): Outcome {
  const message = clipMessage(errorText(error));
  const [summary = message] = message.split('\n');
  const cause = error instanceof RunFault ? 'run' : 'machine';
  return { kind: 'failed', cause, summary, message };
}

/** What the log of a run is to say about an end that its container did not bring about itself. */
function noteOf(outcome: Outcome): string | null {
  switch (outcome.kind) {
    case 'completed':
      return null;
    case 'failed':
      return outcome.cause === 'container' ? null : outcome.message;
    case 'gone':
      return `stopped: ${outcome.why}`;
  }
}

const NO_PLACE: Place = { granted: new Promise(() => undefined), leave: () => undefined };
