import type { EnginePause } from '@longshore/worker/claims/engine-pause';
import { whenAborted } from '@longshore/worker/process/clock';
import { NO_TIMES, timesPayload, type ContainerTimes, type LogLine } from '@longshore/worker/runtime/runtime';
import type { Fetched } from '@longshore/worker/artifacts/fetch-sources';
import { placesOf } from '@longshore/worker/execution/attempt-artifacts';
import type { TracedStep } from '@longshore/worker/execution/execution-trace';
import { clipMessage } from '@longshore/worker/execution/failure-message';
import { failedJob, Unsuitable, type Outcome } from '@longshore/worker/execution/outcome';
import { retryCleanup } from '@longshore/worker/execution/retry-cleanup';
import { runSpec } from '@longshore/worker/execution/run-spec';
import type { RunEnd } from '@longshore/worker/execution/run-end';
import { missingCapabilities } from '@longshore/worker/execution/executor';
import {
  RunExecution,
  type ExecutionParts,
  type ShownOutcome,
} from '@longshore/worker/execution/run-execution';
import type { StopReason } from '@longshore/worker/execution/stop-signal';
import { RecordedEvents } from '@longshore/worker/logs/event-forwarder';
import type { ImagePolicy } from '@longshore/worker/runtime/docker/images/image-policy';
import { parseImageReference } from '@longshore/worker/runtime/docker/images/image-reference';
import type { RunArtifacts } from '@longshore/worker/service-api/run-artifacts';
import { secretNames, type ClaimedRun, type RunView } from '@longshore/worker/service-api/service-api';
import type { Engine, EngineJob, JobKey, JobStatus } from './engine.js';
import { filesOf, filesReader, JobFiles, movesFiles } from './job-files.js';
import { JobLog } from './job-log.js';
import { WaitReports } from './wait-reports.js';
import { EndTimeout, EngineRequests } from './engine-requests.js';

/** How long the log of a job that was ended from outside is read, in milliseconds. */
const REST_OF_LOG_MS = 5_000;

/** Dependencies of all executions of a launcher. */
export interface JobParts extends ExecutionParts {
  readonly engine: Engine;
  readonly enginePause: EnginePause;
  readonly policy: ImagePolicy;
  /** Called when a job waits no longer. */
  readonly onRunning: () => void;
}

/** A job that another process of this worker has submitted. */
interface AdoptedJob {
  readonly job: EngineJob;
  /** Whether the service has accepted STARTED. */
  readonly isStarted: boolean;
  readonly mustStartInTime: boolean;
}

/** The execution of one attempt as a job of an engine: from its claim, or from the adoption of the job. */
export class JobExecution extends RunExecution {
  /** Whether the job is not submitted yet. */
  isPreparing: boolean;
  private ranAt = NO_TIMES;
  /** Null: not submitted yet. */
  private job: EngineJob | null;
  /** Whether the engine may have the job. */
  private mayExist: boolean;
  private isDraining = false;
  /** Whether the container ended by itself. */
  private hasExited = false;
  /** Whether the service has to know that a node prepares the job. */
  private mustTellPlaced: boolean;
  private readonly engineRequests: EngineRequests;
  private readonly endTimeout: EndTimeout;
  private readonly files: JobFiles;
  /** What the job itself fetches and stores; null: nothing. */
  private readonly signedFiles: RunArtifacts | null;
  private readonly jobLog: JobLog;
  private readonly running = new AbortController();
  /** Aborted when the service has accepted STARTED. */
  private readonly started = new AbortController();
  private readonly waits: WaitReports;
  private readonly notes: string[] = [];
  private recorded = new RecordedEvents([], 1);
  private removed: Promise<void> | null = null;
  /** Aborted when the end of the job is left to the engine. */
  private readonly left = new AbortController();

  constructor(
    private readonly parts: JobParts,
    claimed: ClaimedRun,
    private readonly adopted: AdoptedJob | null = null,
  ) {
    super(parts, claimed);
    this.job = adopted?.job ?? null;
    this.engineRequests = new EngineRequests(parts, this.stopSignal, this.trace, this.logger);
    this.endTimeout = new EndTimeout(parts.engine, parts.context.clock);
    const { requests, endTimeout, stopSignal, trace, logger } = this;
    this.signedFiles = movesFiles(parts.engine) ? filesOf(claimed) : null;
    const ofFiles = { artifacts: this.signedFiles, requests, endTimeout, stopSignal, trace, logger };
    this.files = new JobFiles({ ...ofFiles, engine: parts.engine, clock: parts.context.clock });
    this.mustTellPlaced = adopted?.mustStartInTime ?? false;
    this.isPreparing = adopted === null;
    this.mayExist = adopted !== null;
    if (adopted?.isStarted === true) this.started.abort();
    const { signal: started } = this.started;
    this.jobLog = new JobLog({
      engine: parts.engine,
      endTimeout,
      logger,
      started,
      take: (lines, job) => this.takeLines(lines, job),
    });
    const isOver = AbortSignal.any([this.running.signal, this.stopSignal.signal]);
    this.waits = new WaitReports(parts.context.clock, (reason, key) => this.reportWait(reason, key), isOver);
  }

  /** Leaves the job to the next process. A job that is not submitted yet is submitted before. */
  override drain(): void {
    this.isDraining = true;
    if (this.hasExited) this.sender.stopRepeating();
    if (this.job !== null) this.stop({ kind: 'shutting-down' });
  }

  override kill(): void {
    super.kill();
    const { engine, context } = this.parts;
    const { attempt } = this;
    if (!this.mayExist || attempt === null) return;
    const cleanup = { ...context, logger: this.logger };
    void retryCleanup('kill the job', () => engine.kill({ runId: this.claimed.id, attempt }), cleanup);
  }

  /** The engine ends the job after its grace, and the next process of the deployment removes what is left. */
  override endNow(): void {
    this.left.abort();
  }

  protected async runSteps(): Promise<Outcome> {
    if (this.adopted !== null) {
      const { job } = this.adopted;
      this.begin(job.attempt, { isShared: true });
      await this.readMemoOf(job);
      await this.readSecretsOf(job);
      await this.readTimeline(job);
      return this.trace.step('job', (step) => this.follow(job, step));
    }
    const job = await this.submit();
    this.recordWait(job.status.kind === 'pending' ? job.status.reason : '');
    if (this.isDraining) this.stop({ kind: 'shutting-down' });
    return this.trace.step('job', (step) => this.follow(job, step));
  }

  protected override outcomeOfStop(reason: StopReason): Outcome {
    if (reason.kind !== 'lost' && this.job !== null) return { kind: 'left' };
    return super.outcomeOfStop(reason);
  }

  protected override show(outcome: Outcome): ShownOutcome {
    const shown = super.show(outcome);
    return { ...shown, note: shown.note ?? this.jobLog.missing };
  }

  /** Remembers what stands before the lines of the job. */
  protected override note(lines: string): void {
    if (this.job === null) this.notes.push(lines);
    super.note(lines);
  }

  protected whyUnsuitable(): Unsuitable | null {
    const missing = missingCapabilities(this.parts.engine, this.claimed);
    return missing === null ? null : new Unsuitable(missing);
  }

  protected times(): ContainerTimes {
    return this.ranAt;
  }

  protected override endKey(): string | null {
    return this.job === null ? null : `${this.job.engineId}:end`;
  }

  /** A container that has exited stays in the engine until its end is reported, so that no crash loses its outputs. */
  protected async beforeReport(outcome: Outcome): Promise<void> {
    this.running.abort();
    this.files.end();
    if (outcome.kind === 'left') {
      this.jobLog.end();
    } else if (!this.hasExited) {
      this.removed = this.remove();
      await this.forRemoval(this.unlessLeft(this.removed));
    }
  }

  protected async afterReport(end: RunEnd): Promise<void> {
    // The next process repeats a report without an answer.
    const isKept = end === 'left' || (end === 'unreported' && this.hasExited);
    if (!isKept) await this.unlessLeft(this.removed ?? this.remove());
    this.jobLog.end();
  }

  private unlessLeft(removed: Promise<void>): Promise<void> {
    return Promise.race([removed, whenAborted(this.left.signal)]);
  }

  private async submit(): Promise<EngineJob> {
    const { engine, policy } = this.parts;
    const { id: runId, image, constraints } = this.claimed;
    const view = await this.prepare();
    const { currentAttempt: attempt, selector } = view;
    this.mustTellPlaced = view.mustStartInTime;
    await policy.check(parseImageReference(image));
    const secrets = await this.readSecrets();
    for (const other of engine.list()) {
      if (other.runId !== runId || other.attempt === attempt) continue;
      // A later attempt has a job: this one is lost, unless the service's database was restored to a time before.
      if (other.attempt > attempt) await this.requests.getRun(attempt);
      await this.engineRequests.removeOther(other);
    }
    const fetched = await this.fetchFor(view);
    try {
      this.stopSignal.check();
      this.mayExist = true;
      this.job = await this.engineRequests.submit({
        ...runSpec(this.claimed, view, secrets, this.trace.context),
        constraints,
        selector,
        secrets: secrets.env,
        registry: secrets.registry,
        memo: { signedQueries: this.signedQueries, notes: this.notes },
        artifacts: fetched && placesOf(this.claimed.artifacts, fetched),
        signedFiles: this.signedFiles,
      });
    } finally {
      await fetched?.release();
    }
    const { job } = this;
    this.isPreparing = false;
    this.logger.info({ engineId: job.engineId, attempt }, 'submitted the job');
    return job;
  }

  /** @returns null: the launcher fetches nothing for this engine */
  private async fetchFor(view: RunView): Promise<Fetched | null> {
    const { files } = this.parts.engine;
    return files === undefined ? null : this.fetchFiles(Promise.resolve(view), files.from);
  }

  /**
   * Masks the values that an adopted job was submitted with: the service may have others by now, or none. Without them,
   * nothing that the container says is reported.
   */
  private async readSecretsOf(job: EngineJob): Promise<void> {
    if (secretNames({ ...this.claimed.container, image_pull_secret: null }).length === 0) {
      this.maskGiven();
      return;
    }
    const values = await this.engineRequests.readSecrets(job);
    if (values === null) this.holdBack();
    else this.maskGiven(values);
  }

  /**
   * The lines that stand before those of the job are counted again, as the job's are. Without the signed URLs that its program has,
   * nothing that it says is reported.
   */
  private async readMemoOf(job: EngineJob): Promise<void> {
    const memo = await this.engineRequests.readMemo(job);
    if (memo === null && (await this.requests.hasSignedUrls(job.attempt))) this.holdBack();
    this.signedQueries = memo?.signedQueries ?? [];
    for (const note of memo?.notes ?? []) this.note(note);
  }

  /** What is on the timeline of an adopted job is not reported again. */
  private async readTimeline({ attempt }: EngineJob): Promise<void> {
    const newest = await this.requests.getTimeline();
    this.recorded = new RecordedEvents(newest, attempt);
    this.waits.resume(newest.filter((entry) => entry.attempt === attempt));
  }

  private async follow(submitted: EngineJob, step: TracedStep): Promise<Outcome> {
    const { engine } = this.parts;
    const { signal } = this.stopSignal;
    void this.files.renew(submitted, this.adopted !== null);
    for (let known: JobStatus | null = null; ;) {
      const job: EngineJob | null = await this.stopSignal.abortable(
        engine.nextStatus(submitted, known, signal),
      );
      if (job === null) return this.outcomeOfMissing(submitted);
      known = job.status;
      this.ranAt = job.times ?? this.ranAt;
      switch (known.kind) {
        case 'pending':
          this.recordWait(known.reason);
          if (known.isPlaced) this.reportPlaced(job);
          // How its files come in is told before it starts.
          if (known.isPlaced && this.signedFiles !== null) this.jobLog.begin(job);
          break;
        case 'running':
          await this.onRunning(job);
          if (known.hasEnded) void this.files.begin(job);
          break;
        case 'exited': {
          this.hasExited = true;
          step.set({ 'process.exit.code': known.exitCode });
          await this.onRunning(job);
          const signed = this.signedFiles === null ? null : await this.files.left(job);
          await this.stopSignal.abortable(this.jobLog.rest());
          this.logger.info({ ...known }, 'the container has ended');
          const stored =
            signed ?? (await this.storeFiles(filesReader(engine, job, signal), known.exitCode === 0));
          return this.outcomeOfExit(known, stored, () => this.readOutputs(job));
        }
        case 'failed': {
          if (this.started.signal.aborted) this.jobLog.begin(job);
          await Promise.race([this.jobLog.reading, this.parts.context.clock.sleep(REST_OF_LOG_MS, signal)]);
          this.stopSignal.check();
          const outcome = failedJob(known.cause, known.message);
          return this.started.signal.aborted
            ? this.failedWith(outcome, await this.storeFiles(filesReader(engine, job, signal), false))
            : outcome;
        }
      }
    }
  }

  private readOutputs(job: EngineJob): Promise<Buffer | null> {
    const { signal } = this.stopSignal;
    return this.endTimeout.limit('the outputs', (until) =>
      this.parts.engine.readOutputs(job, AbortSignal.any([signal, until])),
    );
  }

  /** Reports STARTED and begins to read the log, once. */
  private async onRunning(job: EngineJob): Promise<void> {
    if (this.running.signal.aborted) return;
    this.running.abort();
    this.parts.onRunning();
    const { startedAt } = this.ranAt;
    if (!this.started.signal.aborted)
      await this.reportStart(timesPayload({ startedAt, finishedAt: null }), `${job.engineId}:started`);
    this.started.abort();
    this.jobLog.begin(job);
  }

  private takeLines(lines: AsyncIterable<LogLine>, job: EngineJob): Promise<void> {
    const rereading = {
      keyOf: (line: number) => `${job.engineId}:line:${line}`,
      isRepeated: this.adopted !== null,
      recorded: this.recorded,
    };
    const sink = { sender: this.sender, mask: this.mask, signal: this.stopSignal.signal, rereading };
    return this.log.read(this.shownLines(lines), sink);
  }

  /** @throws Stopped when another process has reported the end and removed the job */
  private async outcomeOfMissing({ engineId, attempt }: EngineJob): Promise<Outcome> {
    await this.requests.getRun(attempt);
    return failedJob(
      'infrastructure',
      `${this.parts.engine.name} does not have the job ${engineId} any more`,
    );
  }

  private recordWait(reason: string): void {
    this.waits.update(clipMessage(this.mask.text(reason)));
  }

  private reportWait(reason: string, key: string): void {
    const { name } = this.parts.engine;
    if (this.job === null || this.isHeldBack) return;
    const { engineId } = this.job;
    const msg = reason === '' ? `Submitted to ${name}` : `Waiting in ${name}: ${reason}`;
    const payload = { engine: name, engine_id: engineId, ...(reason === '' ? {} : { reason }) };
    void this.sender.push({ type: 'SUBMITTED', msg, payload }, `${engineId}:submitted:${key}`);
  }

  /** Reports once that the job waits no longer for a node. */
  private reportPlaced({ engineId }: EngineJob): void {
    if (!this.mustTellPlaced) return;
    this.mustTellPlaced = false;
    const msg = `A node of ${this.parts.engine.name} prepares the job`;
    void this.sender.push({ type: 'PREPARING', msg }, `${engineId}:preparing`);
  }

  private async remove(): Promise<void> {
    const { engine, context } = this.parts;
    const { attempt } = this;
    if (!this.mayExist || attempt === null) return;
    const key: JobKey = { runId: this.claimed.id, attempt };
    const cleanup = { ...context, logger: this.logger };
    await retryCleanup('remove the job', () => engine.remove(key), cleanup);
  }
}
