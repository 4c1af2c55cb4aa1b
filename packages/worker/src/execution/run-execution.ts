import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { errorText } from '@longshore/common/errors';
import { jsonText } from '@longshore/common/json/json-text';
import type { JsonObject } from '@longshore/common/json/json-value';
import type { Tracing } from '@longshore/common/tracing/tracing';
import type { EventLimits } from '../logs/event-forwarder.js';
import type { ShipperOptions } from '../logs/log-shipper.js';
import { RunLog, type UnshippedLogs } from '../logs/run-log.js';
import type { ContainerExit, ContainerTimes, LogLine } from '../runtime/runtime.js';
import type { CollectParts } from '../artifacts/collect.js';
import type { FileParts } from '../artifacts/download.js';
import { fetchSources, NOTHING_FETCHED, type Fetched } from '../artifacts/fetch-sources.js';
import { NO_MASK, SecretMask } from '../secrets/secret-mask.js';
import { signedQueries } from '../secrets/signed-urls.js';
import type { StoredArtifact } from '../service-api/run-artifacts.js';
import {
  secretFiles,
  type ClaimedRun,
  type RunOwnership,
  type RunSecrets,
  type RunView,
  type EndingRun,
} from '../service-api/service-api.js';
import type { WorkerContext } from '../worker-context.js';
import {
  collectFiles,
  outcomeWith,
  untilFetched,
  withArtifacts,
  type Left,
  type ReadFiles,
} from './attempt-artifacts.js';
import { EventSender } from './event-sender.js';
import { ExecutionTrace } from './execution-trace.js';
import { failureHint } from './failure-hint.js';
import { failureMessage, failureSummary } from './failure-message.js';
import { HELD_BACK, heldBackLines, withoutTexts } from './held-back.js';
import { logNoteOf, maskedOutcome, outcomeOfError, Refused, Unsuitable, type Outcome } from './outcome.js';
import { reportEnd, type RunEnd } from './run-end.js';
import { lossReason, pollRun, RunRequests } from './run-requests.js';
import { keepOutputs } from './large-outputs.js';
import type { LargeOutputs, RunOutputs } from './run-outputs.js';
import { Stopped, StopSignal, type StopReason } from './stop-signal.js';

/** A preparation that takes longer is told on the timeline, in milliseconds. */
const LONG_MS = 2_000;

/** How long the final event waits for the removal of a container beyond its time to stop, in milliseconds. */
const REMOVAL_MS = 15_000;

/** Dependencies that all executions of a worker share. */
export interface ExecutionParts {
  readonly context: WorkerContext;
  readonly unshippedLogs: UnshippedLogs;
  readonly eventLimits: EventLimits;
  readonly outputs: RunOutputs;
  /** Null: the worker does not trace. */
  readonly tracing: Tracing | null;
  /** Interval of polls of the run's state, for a service whose heartbeats do not tell of lost runs. */
  readonly tickMs: number;
  /** Whether the worker leaves its containers to its next process when it shuts down. */
  readonly leavesContainers: boolean;
}

/** An outcome as it is reported. */
export interface ShownOutcome {
  readonly outcome: Outcome;
  /** Added to the log of the run; null: nothing. */
  readonly note: string | null;
}

/** The execution of one attempt of a run, up to the accepted final event. Subclasses differ in who executes the container. */
export abstract class RunExecution {
  protected readonly stopSignal = new StopSignal();
  protected readonly logger: Logger;
  protected readonly sender: EventSender;
  protected readonly requests: RunRequests;
  protected readonly log: RunLog;
  protected readonly trace: ExecutionTrace;
  /** Null: not known yet. */
  protected attempt: number | null;
  /** For what is shown: values of secrets and queries of signed URLs. */
  protected mask = NO_MASK;
  /** For outputs: values of secrets. The service knows signed URLs in them. */
  private secretMask = NO_MASK;
  private givenSecrets: readonly Readonly<Record<string, string | Buffer>>[] = [];
  /** Of the URLs that the program finds in inputs and template. */
  protected signedQueries: readonly string[] = [];
  /** Whether values that the program has are unknown. */
  protected isHeldBack = false;
  /** Aborted when the final event decides, not the service's word about the run. */
  private readonly watching = new AbortController();
  /** Whether a heartbeat was told that the attempt is lost. */
  private isToldLost = false;
  private hasLost = false;
  private readonly killing = new AbortController();

  constructor(
    private readonly shared: ExecutionParts,
    readonly claimed: ClaimedRun,
  ) {
    const { context, tracing, eventLimits } = shared;
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
    this.log = new RunLog(context, { runId: claimed.id, logger: this.logger }, eventLimits);
    this.requests = new RunRequests(context, claimed, this.stopSignal, this.logger);
  }

  /** Whether it executes the attempt of the run. While its own attempt is not known, it may be any. */
  executes(runId: string, attempt: number): boolean {
    const { id, attempt: own } = this.claimed;
    return id === runId && (own ?? attempt) === attempt;
  }

  /** Whether heartbeats list the run. */
  get isHeld(): boolean {
    return !this.isToldLost;
  }

  /** Whether the service has taken the attempt away: what is left is to end its program. */
  get isLost(): boolean {
    return this.hasLost;
  }

  /** The attempt as heartbeats list it while its program is being ended; null: it is not. */
  get ending(): EndingRun | null {
    const { attempt, claimed } = this;
    return this.isToldLost && attempt !== null ? { id: claimed.id, attempt } : null;
  }

  /** Ends the program without the rest of its grace. */
  kill(): void {
    if (!this.isKilled) this.logger.info('killing the program');
    this.killing.abort();
  }

  /** The worker shuts down, and waits no longer for the end of the program of a lost run. */
  endNow(): void {
    this.kill();
  }

  get isKilled(): boolean {
    return this.killing.signal.aborted;
  }

  /** Aborted when the program gets no more time to end. */
  protected get killed(): AbortSignal {
    return this.killing.signal;
  }

  /** Stops the execution if the service's answer to a heartbeat that listed it says that the attempt is lost. */
  onOwnership(run: RunOwnership): void {
    const why = lossReason(run, this.shared.context.workerId, this.attempt);
    if (why === null) return;
    this.isToldLost = true;
    if (!this.watching.signal.aborted) this.stop({ kind: 'lost', why });
  }

  /** Ends the execution early, at any step. */
  stop(reason: StopReason): void {
    if (reason.kind === 'lost') {
      this.hasLost = true;
      this.sender.close('lost');
    }
    if (reason.kind === 'key-refused') {
      this.sender.close('given-up');
      this.log.close();
    }
    this.stopSignal.stop(reason);
  }

  /** The worker shuts down: called before the drain time, after which it stops what is left. */
  drain(): void {}

  /** Stops waiting for an answer to the final event. */
  giveUpReporting(): void {
    this.sender.close('given-up');
  }

  /** Executes the run, reports its end and cleans up. Never rejects. */
  async run(): Promise<RunEnd> {
    const { outcome, note } = this.show(await this.execute());
    this.watching.abort();
    if (outcome.kind === 'left') {
      this.sender.close('left');
      this.log.close();
    }
    await this.beforeReport(outcome);
    await this.log.finish(note);
    const end = await this.trace.step('report', () =>
      reportEnd(outcome, this.sender, { logger: this.logger, key: this.endKey(), times: this.times() }),
    );
    this.trace.end(outcome, end);
    this.shared.unshippedLogs.add(this.log);
    if (end === 'left') this.log.close();
    await this.afterReport(end);
    return end;
  }

  /** Executes the container to its end. */
  protected abstract runSteps(): Promise<Outcome>;

  /** Resolves when no container works on the run any more, so that two never do, or after a limited time. Never rejects. */
  protected abstract beforeReport(outcome: Outcome): Promise<void>;

  /** Waits for a removal not much longer than the container has to stop. */
  protected async forRemoval(removed: Promise<void>): Promise<void> {
    const limitMs = this.claimed.container.stop_grace_s * 1000 + REMOVAL_MS;
    await Promise.race([removed, this.shared.context.clock.sleep(limitMs)]);
  }

  /** Removes what is left of the execution. Never rejects. */
  protected abstract afterReport(end: RunEnd): Promise<void>;

  /** Why this worker cannot execute the run; null: it can. */
  protected abstract whyUnsuitable(): Unsuitable | null;

  /** The outcome without values of secrets. */
  protected show(outcome: Outcome): ShownOutcome {
    const masked = maskedOutcome(this.isHeldBack ? withoutTexts(outcome) : outcome, this.mask);
    return { outcome: masked, note: logNoteOf(masked) };
  }

  /** When the container ran, as far as that is known now. */
  protected abstract times(): ContainerTimes;

  /** Idempotency key of the final event; null: one of this execution alone. */
  protected endKey(): string | null {
    return null;
  }

  protected outcomeOfStop(reason: StopReason): Outcome {
    switch (reason.kind) {
      case 'lost':
        this.logger.info({ why: reason.why }, 'stopped: the run is lost');
        return { kind: 'lost', why: reason.why };
      case 'key-refused':
        this.logger.error(
          'stopped the run: its end cannot be reported, the service gives it to another worker',
        );
        return { kind: 'lost', why: "the service refuses this worker's key" };
      case 'shutting-down': {
        const message = `Worker '${this.shared.context.workerId}' is shutting down`;
        return { kind: 'failed', origin: 'shutdown', cause: 'infrastructure', summary: message, message };
      }
    }
  }

  /** Fetches what the claim lacks, and begins with the attempt. */
  protected async prepare(): Promise<RunView> {
    const view = await this.requests.getRun(this.attempt);
    this.begin(view.currentAttempt);
    const unsuitable = this.whyUnsuitable();
    if (unsuitable !== null) throw unsuitable;
    this.signedQueries = signedQueries(jsonText(this.claimed.inputs), jsonText(view.outputs));
    this.hide();
    return view;
  }

  /** Starts to ship the log, and to watch a run of an older service. */
  protected begin(attempt: number, log: Partial<Pick<ShipperOptions, 'isShared' | 'from'>> = {}): void {
    this.attempt = attempt;
    this.log.open(attempt, { isShared: false, from: null, ...log });
    void this.poll(attempt);
  }

  /** Reads the values of the run's secrets and masks them from now on. */
  protected async readSecrets(): Promise<RunSecrets> {
    const secrets = await this.requests.getSecrets(this.attempt);
    this.hide({ ...secrets.env, ...secrets.files });
    return secrets;
  }

  /** Masks what the program was given from now on. @param given as {@link maskGiven}; empty: as before */
  private hide(...given: typeof this.givenSecrets): void {
    if (given.length > 0) this.givenSecrets = given;
    this.secretMask = SecretMask.of(...this.givenSecrets);
    const queries = Object.fromEntries(this.signedQueries.entries());
    this.mask =
      this.signedQueries.length === 0 ? this.secretMask : SecretMask.of(...this.givenSecrets, queries);
  }

  /**
   * Masks the values that the program of an earlier process got. Without those of the secrets of the run, nothing that it says is
   * reported.
   * @param given by the names of variables and the paths of files
   */
  protected maskGiven(...given: readonly Readonly<Record<string, string | Buffer>>[]): void {
    const { container } = this.claimed;
    const names = [...Object.keys(container.secrets), ...secretFiles(container)];
    this.hide(...given);
    if (!names.every((name) => given.some((values) => Object.hasOwn(values, name)))) this.holdBack();
  }

  /** Reports nothing that the program says. */
  protected holdBack(): void {
    this.isHeldBack = true;
    this.logger.warn(HELD_BACK);
  }

  /** The lines without texts where values are unknown. */
  protected shownLines(lines: AsyncIterable<LogLine>): AsyncIterable<LogLine> {
    return this.isHeldBack ? heldBackLines(lines) : lines;
  }

  /** Resolves when the service has accepted STARTED. @throws Stopped; Refused */
  protected async reportStart(details: JsonObject, key: string | null = null): Promise<void> {
    this.stopSignal.check();
    const { workerId } = this.shared.context;
    const payload = { worker_id: workerId, ...details };
    const started = { type: 'STARTED', msg: `Started by worker '${workerId}'`, payload };
    const delivery = await this.stopSignal.abortable(this.sender.deliver(started, key));
    this.stopSignal.check();
    if (delivery.kind === 'closed') throw new Stopped({ kind: 'key-refused' });
    if (delivery.kind === 'refused') {
      throw new Refused(`The service refused the start of the run (${delivery.status}): ${delivery.detail}`);
    }
  }

  /**
   * The outcome of a container that ended with exit code 0.
   * @param outputFile null: there is none
   * @param artifacts what was stored of its files
   */
  private completed(outputFile: Buffer | null, artifacts: readonly StoredArtifact[]): Promise<Outcome> {
    const keep: LargeOutputs['keep'] = () => keepOutputs(this.storing, this.logger, this.stopSignal.signal);
    return this.stopSignal.abortable(
      this.shared.outputs.read(outputFile, this.secretMask, { artifacts, keep }),
    );
  }

  /**
   * Fetches the files of the run to the disk of this machine.
   * @throws Stopped
   * @throws Error as `fetchSources`
   */
  protected async fetchFiles(viewed: Promise<RunView>, files: FileParts): Promise<Fetched> {
    const { in: sources = {} } = this.claimed.artifacts ?? {};
    if (Object.keys(sources).length === 0) return NOTHING_FETCHED;
    const over = new AbortController();
    void this.reportPreparing(viewed, 'Fetching the files of the run', over.signal);
    const getSources = () => this.requests.getSources(this.attempt);
    const parts = { ...this.shared.context, ...files, getSources };
    const fetching = fetchSources(sources, parts, this.storing.log, this.stopSignal.signal);
    return this.trace
      .step('fetch files', () => untilFetched(fetching, this.stopSignal))
      .finally(() => over.abort());
  }

  /** Reports what is being prepared: at once if the run must start in time, else if it takes long. Never rejects. */
  protected async reportPreparing(viewed: Promise<RunView>, msg: string, over: AbortSignal): Promise<void> {
    const view = await viewed.catch(() => null);
    if (view?.mustStartInTime === false) await this.shared.context.clock.sleep(LONG_MS, over);
    if (view === null || over.aborted || this.stopSignal.signal.aborted) return;
    void this.sender.push({ type: 'PREPARING', msg });
  }

  /** The outcome of a container that has ended by itself, and of which this was stored. @throws Stopped */
  protected async outcomeOfExit(
    exit: ContainerExit,
    stored: Left,
    readOutputs: () => Promise<Buffer | null>,
  ): Promise<Outcome> {
    if (exit.exitCode !== 0) return this.failedWith(this.failedExit(exit), stored);
    const { left, problem } = stored;
    return outcomeWith(left, problem, async () =>
      this.completed(await this.stopSignal.abortable(readOutputs()), left),
    );
  }

  /** A failure after which what the run gives after each end is stored. */
  protected failedWith(outcome: Outcome, { left, problem }: Left): Outcome {
    if (problem !== null) this.note(errorText(problem));
    return withArtifacts(outcome, left);
  }

  /** Stores what an ended container leaves. @throws Stopped */
  protected storeFiles(readFiles: ReadFiles, hasSucceeded: boolean): Promise<Left> {
    const { artifacts } = this.claimed;
    const store = () => collectFiles(readFiles, { artifacts, hasSucceeded }, this.storing, this.stopSignal);
    return artifacts === undefined || readFiles === null ? store() : this.trace.step('store files', store);
  }

  /** Adds lines to the log of the run, before or after those of the container. */
  protected note(lines: string): void {
    this.log.note(lines);
  }

  /** How files of the run are moved, and sent to its store. */
  private get storing(): CollectParts {
    const { clock, random } = this.shared.context;
    const getUploads: CollectParts['getUploads'] = (request) =>
      this.requests.getUploads(this.attempt, request);
    return { clock, random, getUploads, log: { clock, note: (text) => this.note(text) } };
  }

  /** The outcome of a container that ended with another exit code than 0. */
  private failedExit(exit: ContainerExit): Outcome {
    const summary = failureSummary(exit, this.claimed.constraints.ramMb);
    const lines = this.log.lastLines();
    const hint = failureHint(this.claimed.container, exit.exitCode, lines);
    const message = failureMessage(hint === null ? summary : `${summary}. ${hint}`, lines);
    const cause = exit.outOfMemory ? 'oom' : 'exit';
    return { kind: 'failed', origin: 'container', cause, exitCode: exit.exitCode, summary, message };
  }

  private async execute(): Promise<Outcome> {
    try {
      return await this.runSteps();
    } catch (error) {
      return error instanceof Stopped ? this.outcomeOfStop(error.reason) : outcomeOfError(error);
    }
  }

  private async poll(attempt: number): Promise<void> {
    const { context, tickMs } = this.shared;
    const polled = { runId: this.claimed.id, attempt, tickMs, logger: this.logger };
    const why = await pollRun(context, polled, this.watching.signal);
    if (why !== null) this.stop({ kind: 'lost', why });
  }
}
