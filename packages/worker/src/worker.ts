import { EventEmitter } from 'node:events';
import type { Logger } from 'pino';
import type { Tracing } from '@longshore/common/tracing/tracing';
import type { WorkerContext, WorkerEvents } from './worker-context.js';
import type { WorkerSettings } from './settings/worker-settings.js';
import { ClaimObstacles } from './claims/claim-obstacles.js';
import { Inabilities } from './claims/inabilities.js';
import { ClaimLoop } from './claims/claim-loop.js';
import { whenAborted, type Clock } from './process/clock.js';
import { HealthFile } from './heartbeats/health-file.js';
import { HeartbeatLoop } from './heartbeats/heartbeat-loop.js';
import { ClaimThrottle } from './claims/claim-throttle.js';
import { Retirement } from './claims/retirement.js';
import { UnshippedLogs } from './logs/run-log.js';
import { Executions } from './execution/executions.js';
import type { Executor, ExecutorHost } from './execution/executor.js';
import { RunOutputs } from './execution/run-outputs.js';
import { KeyWatch } from './service-api/key-watch.js';
import { isIdRefusal } from './service-api/service-answer.js';
import type { ClaimedRun, Refusal, ServiceApi } from './service-api/service-api.js';
import type { StopReason } from './execution/stop-signal.js';

/** Time to stop containers at the end of a shutdown beyond that from SIGTERM to SIGKILL, in milliseconds. */
const STOPPING_MS = 30_000;

/** Time to ship logs after the drain time, in milliseconds. */
const SHIPPING_MS = 5_000;

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
  private readonly executions: Executions;
  private readonly throttle: ClaimThrottle;
  private readonly retirement: Retirement;
  private readonly healthFile: HealthFile;
  private readonly executor: Executor;
  private readonly claims: ClaimLoop;
  private readonly heartbeats: HeartbeatLoop;
  private readonly unshippedLogs = new UnshippedLogs();
  private readonly draining = new AbortController();
  private readonly failed = new AbortController();
  private readonly events: WorkerEvents = new EventEmitter();
  /** Set when the worker ends for another reason than a shutdown. */
  private failure: StopReason | null = null;

  constructor(private readonly parts: WorkerParts) {
    const { settings, workerId, api, createExecutor, clock, logger, random, tracing } = parts;
    const { tickSeconds, workerTimeoutSeconds } = settings;
    const { events } = this;
    const registered = new AbortController();
    const terms = { workerTimeoutSeconds, maxBodyBytes: null, tellsLostRuns: false, registered };
    const obstacles = new ClaimObstacles(() => events.emit('reasons'));
    const inabilities = new Inabilities(() => events.emit('reasons'));
    const base = { clock, logger, random, workerId, terms };
    const key = new KeyWatch(api, { ...base, onRefused: (refusal) => events.emit('keyRefused', refusal) });
    this.context = { ...base, api: key.api, obstacles, inabilities, key };
    this.executions = new Executions(events, this.draining.signal);
    this.throttle = new ClaimThrottle(clock, random);
    this.retirement = new Retirement(clock, settings, () => this.executions.size > 0);
    this.healthFile = new HealthFile(settings.healthFile, logger, () => [
      ...obstacles.list().map(({ reason, message }) => `${reason}: ${message}`),
      ...inabilities.list().map(({ ability, message }) => `unable ${ability}: ${message}`),
    ]);
    this.executor = createExecutor({
      context: this.context,
      unshippedLogs: this.unshippedLogs,
      tracing,
      tickMs: tickSeconds * 1000,
      leavesContainers: settings.onStop === 'leave',
      eventLimits: settings,
      outputs: new RunOutputs(terms),
      draining: this.draining.signal,
      onCapacityFreed: () => events.emit('capacity'),
      adopt: (execution) => this.executions.start(execution),
    });
    this.claims = new ClaimLoop(this.context, {
      tickMs: tickSeconds * 1000,
      executor: this.executor,
      throttle: this.throttle,
      retirement: this.retirement,
      onRetired: (reason) => {
        logger.info({ reason }, 'the worker ends by itself');
        this.shutDown();
      },
      requestHeartbeat: () => events.emit('news'),
      accept: (run) => this.accept(run),
      onMissed: (reason) => this.onClaimsMissed(reason),
    });
    this.heartbeats = new HeartbeatLoop(this.context, {
      executor: this.executor,
      executions: this.executions,
      tags: settings.tags,
      tickSeconds,
      terms,
      receiving: () => this.claims.receiving,
      onAccepted: () => {
        this.claims.onHeartbeat();
        if (key.state === 'refused') return;
        void this.healthFile.write(clock.epochMs() + terms.workerTimeoutSeconds * 1000);
      },
      onRejected: (refusal) => this.onRejected(refusal),
    });
    this.listen();
  }

  private listen(): void {
    const { events } = this;
    events.on('capacity', () => this.claims.wake());
    events.on('news', () => this.heartbeats.wake());
    events.on('reasons', () => {
      this.heartbeats.wake();
      void this.healthFile.refresh();
      if (this.context.obstacles.isEmpty) this.claims.wake();
    });
    events.on('ended', (execution, end) => {
      this.throttle.recordEnd(end);
      this.retirement.restartIdleTime();
      this.executor.onEnd(execution);
      // The service counts what the program held until it is told of its end.
      if (execution.ending !== null) this.heartbeats.wake();
      this.claims.wake();
    });
    events.on('keyRefused', (refusal) => this.onKeyRefused(refusal));
    events.on('error', (error) => {
      this.parts.logger.fatal({ err: error }, 'the worker failed');
      this.fail({ kind: 'shutting-down' });
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
    for (const execution of this.executions.list()) execution.drain();
  }

  /**
   * Never rejects.
   * @returns the exit code: 0 after a shutdown; 3 when the service refused the key; 1 when it refused the first heartbeat for
   * another reason, after an internal error, or when the end of a run could not be reported
   */
  async run(): Promise<number> {
    const { clock, logger } = this.parts;
    const { executions } = this;
    const heartbeats = new AbortController();
    await this.healthFile.remove();
    await this.guard(this.executor.recover(this.draining.signal));
    // A heartbeat that does not name the runs of the process before would end its absence.
    if (this.draining.signal.aborted && executions.size === 0) return this.failure === null ? 0 : 1;
    const heartbeating = this.guard(this.heartbeats.run(heartbeats.signal));
    const claiming = this.guard(this.claimWhenRegistered());
    const upkeep = this.guard(this.executor.upkeep(this.draining.signal));
    await whenAborted(this.draining.signal);
    await this.finish(claiming);
    heartbeats.abort();
    await Promise.race([Promise.all([heartbeating, upkeep]), clock.sleep(STOPPING_MS)]);
    await this.healthFile.refresh();
    const ended = {
      unreported: executions.unreported,
      unended: executions.size,
      left: executions.left.length,
    };
    const succeeded = this.failure === null && ended.unreported === 0 && ended.unended === 0;
    if (this.failure === null && this.context.terms.registered.signal.aborted) {
      if (ended.left > 0) await this.heartbeats.announceAbsence(this.parts.settings.awaySeconds);
      else if (succeeded) await this.leave();
    }
    logger[succeeded ? 'info' : 'error'](ended, 'the worker has ended');
    if (this.failure?.kind === 'key-refused') return KEY_REFUSED;
    return succeeded ? 0 : 1;
  }

  /** Waits for the runs, stops the rest after the drain time, and waits until their ends are reported. */
  private async finish(claiming: Promise<void>): Promise<void> {
    const { clock, logger, settings } = this.parts;
    const { executions } = this;
    const failed = this.failed.signal;
    const idle = claiming.then(() => executions.untilIdle());
    const shipped = idle.then(() => this.unshippedLogs.untilShipped());
    await Promise.race([shipped, clock.sleep(settings.drainSeconds * 1000, failed)]);
    const graces = executions.list().flatMap((execution) => {
      if (!execution.isLost) return [execution.claimed.container.stop_grace_s];
      execution.endNow();
      return [];
    });
    const graceMs = Math.max(0, ...graces) * 1000;
    executions.stopAll(this.failure ?? { kind: 'shutting-down' });
    // After the worker timeout the service reclaims the runs anyway.
    await Promise.race([idle, clock.sleep(graceMs + this.context.terms.workerTimeoutSeconds * 1000, failed)]);
    for (const execution of executions.list()) {
      if (!failed.aborted)
        logger.error({ run: execution.claimed.id }, 'gave up reporting the end of the run');
      execution.giveUpReporting();
    }
    await Promise.race([idle, clock.sleep(graceMs + STOPPING_MS)]);
    await Promise.race([shipped, clock.sleep(SHIPPING_MS, failed)]);
    this.unshippedLogs.close();
  }

  /** The last request: a heartbeat after it would register the worker again. Without an answer the worker becomes stale. */
  private async leave(): Promise<void> {
    const { api, workerId, logger } = this.parts;
    const answer = await api.removeWorker(workerId);
    if (answer.kind !== 'ok') logger.debug({ answer }, 'the worker stays in the list of the service');
  }

  private async claimWhenRegistered(): Promise<void> {
    await Promise.race([
      whenAborted(this.context.terms.registered.signal),
      whenAborted(this.draining.signal),
    ]);
    this.retirement.restartIdleTime();
    await this.claims.run(this.draining.signal);
  }

  /** @returns false when this attempt is being executed already */
  private accept(run: ClaimedRun): boolean {
    const { id, attempt, image } = run;
    if (this.executions.list().some(({ claimed }) => claimed.id === id && claimed.attempt === attempt))
      return false;
    this.parts.logger.info({ run: id, attempt, image }, 'claimed a run');
    this.throttle.recordClaim();
    this.executions.start(this.executor.execute(run));
    return true;
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
    this.executions.stopAll(reason);
    this.draining.abort();
    this.failed.abort();
    this.unshippedLogs.close();
  }

  /** Ends the worker when one of its parts throws. */
  private guard(part: Promise<void>): Promise<void> {
    return part.catch((error: unknown) => void this.events.emit('error', error));
  }
}
