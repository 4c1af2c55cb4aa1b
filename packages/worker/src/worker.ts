import type { Logger } from 'pino';
import type { Tracing } from '@longshore/common/tracing/tracing';
import type { WorkerContext } from './worker-context.js';
import type { WorkerSettings } from './settings/worker-settings.js';
import { ClaimObstacles } from './claims/claim-obstacles.js';
import { Inabilities } from './claims/inabilities.js';
import { ClaimLoop } from './claims/claim-loop.js';
import { whenAborted, type Clock } from './process/clock.js';
import { HealthFile } from './heartbeats/health-file.js';
import { HeartbeatLoop } from './heartbeats/heartbeat-loop.js';
import { ClaimThrottle } from './claims/claim-throttle.js';
import { UnshippedLogs } from './logs/run-log.js';
import type { Executor, ExecutorHost, RunExecution } from './execution/run-execution.js';
import { RunOutputs } from './execution/run-outputs.js';
import { KeyWatch } from './service-api/key-watch.js';
import { isIdRefusal } from './service-api/service-answer.js';
import type { ClaimedRun, EndingRun, Refusal, ServiceApi } from './service-api/service-api.js';
import type { StopReason } from './execution/stop-signal.js';

/** Time to stop containers at the end of a shutdown beyond that from SIGTERM to SIGKILL, in milliseconds. */
const STOPPING_MS = 30_000;

/** Time to ship logs after the drain time, in milliseconds. */
const SHIPPING_MS = 5_000;

/** How long a refused key is asked about before the first accepted heartbeat, at most, in milliseconds: there is no run to lose. */
const FIRST_DOUBT_MS = 5_000;

/** Exit code after the service has refused the key. */
const KEY_REFUSED = 3;

export interface WorkerParts {
  readonly settings: WorkerSettings;
  readonly workerId: string;
  readonly api: ServiceApi;
  readonly createExecutor: (host: ExecutorHost) => Executor;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
  /** Null: no tracing. */
  readonly tracing: Tracing | null;
}

/** Registers, claims runs, executes and reports them, until a shutdown or until the service refuses the worker for long. */
export class Worker {
  private readonly context: WorkerContext;
  private readonly executor: Executor;
  private readonly heartbeats: HeartbeatLoop;
  private readonly claims: ClaimLoop;
  private readonly executions = new Map<RunExecution, Promise<void>>();
  private readonly unshippedLogs = new UnshippedLogs();
  private readonly draining = new AbortController();
  private readonly failed = new AbortController();
  private readonly registered = new AbortController();
  private readonly throttle: ClaimThrottle;
  private readonly healthFile: HealthFile;
  /** Set when all executions are stopped. */
  private stopReason: StopReason | null = null;
  /** Set when the worker ends for another reason than a shutdown. */
  private failure: StopReason | null = null;
  private unreported = 0;
  /** Runs that go on without this process. */
  private readonly left: ClaimedRun[] = [];

  constructor(private readonly parts: WorkerParts) {
    const { settings, workerId, api, createExecutor, clock, logger, random, tracing } = parts;
    const { tickSeconds } = settings;
    const tickMs = tickSeconds * 1000;
    const obstacles = new ClaimObstacles(() => this.onObstacles());
    const inabilities = new Inabilities(() => this.onObstacles());
    const key = new KeyWatch(api, {
      clock,
      logger,
      random,
      workerId,
      // Later the service gives the runs to others anyway.
      periodMs: () => {
        const timeoutMs = this.heartbeats.timeoutSeconds * 1000;
        return this.registered.signal.aborted ? timeoutMs : Math.min(timeoutMs, FIRST_DOUBT_MS);
      },
      onRefused: (refusal) => this.onKeyRefused(refusal),
    });
    this.context = { api: key.api, clock, logger, random, workerId, obstacles, inabilities, key };
    this.throttle = new ClaimThrottle(clock, random);
    this.healthFile = new HealthFile(settings.healthFile, logger, () => [
      ...obstacles.list().map(({ reason, message }) => `${reason}: ${message}`),
      ...inabilities.list().map(({ ability, message }) => `unable ${ability}: ${message}`),
    ]);
    const executor = createExecutor({
      context: this.context,
      unshippedLogs: this.unshippedLogs,
      tracing,
      tickMs,
      tellsLostRuns: () => this.heartbeats.tellsLostRuns,
      leavesContainers: settings.onStop === 'leave',
      eventLimits: settings,
      outputs: new RunOutputs(() => this.heartbeats.maxBodyBytes),
      draining: this.draining.signal,
      onCapacityFreed: () => this.claims.wake(),
      adopt: (execution) => this.start(execution, []),
    });
    this.executor = executor;
    this.heartbeats = new HeartbeatLoop(this.context, {
      resources: () => executor.resources(),
      load: () => executor.load(),
      tags: [...new Set([...settings.tags, ...executor.tags])],
      capabilities: executor.capabilities,
      containerEngine: executor.containerEngine,
      endingRuns: () => [...this.executions.keys()].flatMap(({ ending }) => ending ?? []),
      onKilled: (run) => this.onKilled(run),
      tickSeconds,
      workerTimeoutSeconds: settings.workerTimeoutSeconds,
      heldRuns: () => [
        ...[...this.executions.keys()].flatMap(({ isHeld, claimed }) => (isHeld ? [claimed] : [])),
        ...this.claims.receiving,
        ...this.left,
      ],
      onLost: (run, lost) => {
        for (const execution of this.executions.keys()) {
          if (execution.claimed === run) execution.onOwnership(lost);
        }
      },
      onRegistered: () => this.registered.abort(),
      onAccepted: () => {
        this.claims.onHeartbeat();
        if (key.state === 'refused') return;
        void this.healthFile.write(clock.epochMs() + this.heartbeats.timeoutSeconds * 1000);
      },
      onRejected: (refusal) => this.onRejected(refusal),
    });
    this.claims = new ClaimLoop(this.context, {
      tickMs,
      hasCapacity: () => obstacles.isEmpty && executor.hasCapacity(),
      claimLimit: () => executor.claimLimit(),
      throttleMs: () => this.throttle.remainingMs(),
      workerTimeoutSeconds: () => this.heartbeats.timeoutSeconds,
      requestHeartbeat: () => this.heartbeats.wake(),
      accept: (run) => this.accept(run),
      onMissed: (reason) => this.onClaimsMissed(reason),
    });
  }

  /** Stops claiming, waits for the runs up to the drain time, then stops them. Idempotent. */
  shutDown(): void {
    if (this.draining.signal.aborted) return;
    this.parts.logger.info({ runs: this.executions.size }, 'shutting down');
    this.context.obstacles.set('draining', 'the worker shuts down');
    this.drain();
  }

  private drain(): void {
    this.draining.abort();
    for (const execution of this.executions.keys()) execution.drain();
  }

  /**
   * Never rejects.
   * @returns the exit code: 0 after a shutdown; 3 when the service refused the key; 1 when it refused the first heartbeat for
   * another reason, after an internal error, or when the end of a run could not be reported
   */
  async run(): Promise<number> {
    const { clock, logger } = this.parts;
    const heartbeats = new AbortController();
    await this.healthFile.remove();
    await this.guard(this.executor.recover(this.draining.signal));
    // A heartbeat that does not name the runs of the process before would end its absence.
    if (this.draining.signal.aborted && this.executions.size === 0) return this.failure === null ? 0 : 1;
    const heartbeating = this.guard(this.heartbeats.run(heartbeats.signal));
    const claiming = this.guard(this.claimWhenRegistered());
    const upkeep = this.guard(this.executor.upkeep(this.draining.signal));
    await whenAborted(this.draining.signal);
    await this.finish(claiming);
    heartbeats.abort();
    await Promise.race([Promise.all([heartbeating, upkeep]), clock.sleep(STOPPING_MS)]);
    const ended = { unreported: this.unreported, unended: this.executions.size, left: this.left.length };
    const succeeded = this.failure === null && ended.unreported === 0 && ended.unended === 0;
    if (this.failure === null && this.registered.signal.aborted) {
      if (this.left.length > 0) await this.heartbeats.announceAbsence(this.parts.settings.awaySeconds);
      else if (succeeded) await this.leave();
    }
    logger[succeeded ? 'info' : 'error'](ended, 'the worker has ended');
    if (this.failure?.kind === 'key-refused') return KEY_REFUSED;
    return succeeded ? 0 : 1;
  }

  /** Waits for the runs, stops the rest after the drain time, and waits until their ends are reported. */
  private async finish(claiming: Promise<void>): Promise<void> {
    const { clock, logger, settings } = this.parts;
    const failed = this.failed.signal;
    const idle = this.untilIdle(claiming);
    const shipped = idle.then(() => this.unshippedLogs.untilShipped());
    await Promise.race([shipped, clock.sleep(settings.drainSeconds * 1000, failed)]);
    const graces = [...this.executions.keys()].flatMap((execution) => {
      if (!execution.isLost) return [execution.claimed.container.stop_grace_s];
      execution.endNow();
      return [];
    });
    const graceMs = Math.max(0, ...graces) * 1000;
    this.stopAll(this.failure ?? { kind: 'shutting-down' });
    // After the worker timeout the service reclaims the runs anyway.
    await Promise.race([idle, clock.sleep(graceMs + this.heartbeats.timeoutSeconds * 1000, failed)]);
    for (const execution of this.executions.keys()) {
      if (!failed.aborted)
        logger.error({ run: execution.claimed.id }, 'gave up reporting the end of the run');
      execution.giveUpReporting();
    }
    await Promise.race([idle, clock.sleep(graceMs + STOPPING_MS)]);
    await Promise.race([shipped, clock.sleep(SHIPPING_MS, failed)]);
    this.unshippedLogs.close();
  }

  private async untilIdle(claiming: Promise<void>): Promise<void> {
    await claiming;
    while (this.executions.size > 0) await Promise.all(this.executions.values());
  }

  /** The last request: a heartbeat after it would register the worker again. Without an answer the worker becomes stale. */
  private async leave(): Promise<void> {
    const { api, workerId, logger } = this.parts;
    const answer = await api.removeWorker(workerId);
    if (answer.kind !== 'ok') logger.debug({ answer }, 'the worker stays in the list of the service');
  }

  private async claimWhenRegistered(): Promise<void> {
    await Promise.race([whenAborted(this.registered.signal), whenAborted(this.draining.signal)]);
    await this.claims.run(this.draining.signal);
  }

  /**
   * Starts to execute a claimed run. Stops another attempt of the run and waits for its end first.
   * @returns false when this attempt is being executed already
   */
  private accept(run: ClaimedRun): boolean {
    const { logger } = this.parts;
    const held = [...this.executions].filter(([{ claimed }]) => claimed.id === run.id);
    if (held.some(([{ claimed }]) => claimed.attempt === run.attempt)) return false;
    logger.info({ run: run.id, attempt: run.attempt, image: run.image }, 'claimed a run');
    this.throttle.recordClaim();
    const why = `this worker claimed attempt ${run.attempt}`;
    for (const [older] of held) older.stop({ kind: 'lost', why });
    const superseded = held.map(([, end]) => end);
    this.start(this.executor.execute(run), superseded);
    return true;
  }

  private start(execution: RunExecution, after: readonly Promise<void>[]): void {
    this.executions.set(execution, this.guard(this.execute(execution, after)));
    this.heartbeats.wake();
    if (this.draining.signal.aborted) execution.drain();
    if (this.stopReason !== null) execution.stop(this.stopReason);
  }

  private async execute(execution: RunExecution, after: readonly Promise<void>[]): Promise<void> {
    try {
      await Promise.all(after);
      const end = await execution.run();
      if (end === 'unreported') this.unreported += 1;
      if (end === 'left') this.left.push(execution.claimed);
      this.throttle.recordEnd(end);
    } finally {
      this.executions.delete(execution);
      this.executor.onEnd(execution);
      // The service counts what the program held until it is told of its end.
      if (execution.ending !== null) this.heartbeats.wake();
      this.claims.wake();
    }
  }

  /** @returns whether it is news */
  private onKilled({ id, attempt }: EndingRun): boolean {
    const ending = [...this.executions.keys()].filter(
      (execution) => execution.ending?.id === id && execution.ending.attempt === attempt,
    );
    const fresh = ending.filter(({ isKilled }) => !isKilled);
    for (const execution of fresh) execution.kill();
    return fresh.length > 0;
  }

  private stopAll(reason: StopReason): void {
    this.stopReason = reason;
    for (const execution of this.executions.keys()) execution.stop(reason);
  }

  private onObstacles(): void {
    this.heartbeats.wake();
    void this.healthFile.refresh();
    if (this.context.obstacles.isEmpty) this.claims.wake();
  }

  /** Drains: the runs may end within the drain time, and report it should the key be accepted again. */
  private onKeyRefused(refusal: Refusal): void {
    const { clock, settings, logger } = this.parts;
    const { status, detail } = refusal;
    const { serviceUrl: service, workerId, drainSeconds } = settings;
    const idAdvice =
      workerId === null && isIdRefusal(refusal)
        ? ', or start it with `--id` and one that the key is bound to'
        : '';
    logger.error(
      { status, detail, service, runs: this.executions.size, drainSeconds },
      `the service refuses this worker's key; the worker claims nothing more and ends: check SERVICE_URL, SERVICE_API_KEY and its scope${idAdvice}`,
    );
    this.failure ??= { kind: 'key-refused' };
    this.context.obstacles.set('key_refused', detail);
    void this.healthFile.write(clock.epochMs());
    this.drain();
  }

  private onClaimsMissed(reason: string): void {
    if (this.draining.signal.aborted) return;
    const { logger, settings } = this.parts;
    logger.error(
      { reason, service: settings.serviceUrl },
      'claims get 404 although heartbeats are accepted; the worker claims nothing more and ends: a proxy in front of the service changes paths, such as %2F in the id of the worker',
    );
    this.failure ??= { kind: 'shutting-down' };
    this.context.obstacles.set('draining', 'claims get 404');
    this.drain();
  }

  private onRejected({ status, detail }: Refusal): void {
    const { logger, settings } = this.parts;
    logger.error(
      { status, detail, service: settings.serviceUrl },
      'the service refuses the heartbeats of this worker: check SERVICE_URL and the version of the service',
    );
    this.fail({ kind: 'shutting-down' });
  }

  private fail(reason: StopReason): void {
    this.failure ??= reason;
    this.stopAll(reason);
    this.draining.abort();
    this.failed.abort();
    this.unshippedLogs.close();
  }

  /** Ends the worker when one of its parts throws. */
  private async guard(part: Promise<void>): Promise<void> {
    try {
      await part;
    } catch (error) {
      this.parts.logger.fatal({ err: error }, 'the worker failed');
      this.fail({ kind: 'shutting-down' });
    }
  }
}
