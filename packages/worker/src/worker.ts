import type { Logger } from 'pino';
import type { Tracing } from '@longshore/common/tracing/tracing';
import type { WorkerContext } from './worker-context.js';
import type { WorkerSettings } from './load-settings.js';
import { Backoff } from './backoff.js';
import { CapacityQueue } from './claims/capacity-queue.js';
import { Capacity } from './claims/capacity.js';
import { ClaimLoop } from './claims/claim-loop.js';
import type { Clock } from './clock.js';
import { errorText } from './execution/failure-message.js';
import { HealthFile } from './heartbeats/health-file.js';
import { HeartbeatLoop } from './heartbeats/heartbeat-loop.js';
import { ClaimThrottle } from './claims/claim-throttle.js';
import { LingeringLogs } from './logs/lingering-logs.js';
import { RunExecution, type ExecutionParts } from './execution/run-execution.js';
import type { RunFolders } from './execution/run-folder.js';
import type { Runtime } from './runtime/runtime.js';
import type { ClaimedRun, Refusal, Resources, ServiceApi } from './service-api/service-api.js';
import type { StopReason } from './execution/stop-signal.js';

/** Time for containers to be stopped when nothing else is waited for any more, in milliseconds. */
const STOPPING_MS = 30_000;

/** Time for the rest of logs to be shipped once the drain time is over and all runs have ended, in milliseconds. */
const SHIPPING_MS = 5_000;

/** What a worker is made of. */
export interface WorkerParts {
  readonly settings: WorkerSettings;
  readonly resources: Resources;
  readonly api: ServiceApi;
  readonly runtime: Runtime;
  readonly folders: RunFolders;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly random: () => number;
  /** Null: the worker does not trace. */
  readonly tracing: Tracing | null;
}

/**
 * The worker: registers, claims, executes and reports until it is told to shut down or the service refuses its key.
 */
export class Worker {
  private readonly context: WorkerContext;
  private readonly executionParts: ExecutionParts;
  private readonly heartbeats: HeartbeatLoop;
  private readonly claims: ClaimLoop;
  private readonly executions = new Map<RunExecution, Promise<void>>();
  private readonly lingering = new LingeringLogs();
  private readonly draining = new AbortController();
  private readonly broken = new AbortController();
  private readonly registered = new AbortController();
  private readonly holdBack: ClaimThrottle;
  private readonly healthFile: HealthFile;
  /** Why every execution is to end, once it is so. */
  private stopReason: StopReason | null = null;
  /** The same when something other than a shutdown ends the worker. */
  private breakdown: StopReason | null = null;
  private unreported = 0;

  constructor(private readonly parts: WorkerParts) {
    const { settings, resources, api, runtime, folders, clock, logger, random, tracing } = parts;
    const { workerId, tickSeconds } = settings;
    const { lingering } = this;
    const tickMs = tickSeconds * 1000;
    this.context = { api, clock, logger, random, workerId, onKeyRefused: (no) => this.onRefused(no) };
    this.holdBack = new ClaimThrottle(clock, random);
    this.healthFile = new HealthFile(settings.healthFile, logger);
    const capacity = new CapacityQueue(new Capacity(resources, settings.maxRuns ?? resources.cpuCores), () =>
      this.claims.wake(),
    );
    this.executionParts = { context: this.context, runtime, folders, capacity, lingering, tracing, tickMs };
    this.heartbeats = new HeartbeatLoop(this.context, {
      resources,
      tags: settings.tags,
      tickSeconds,
      workerTimeoutSeconds: settings.workerTimeoutSeconds,
      heldRuns: () => [...this.executions.keys()].map(({ claimed }) => claimed),
      onRegistered: () => this.registered.abort(),
      onTaken: () => {
        this.claims.noteHeartbeat();
        void this.healthFile.note(clock.epochMs() + this.heartbeats.timeoutSeconds * 1000);
      },
      onMisfit: (refusal) => this.onRefused(refusal),
    });
    const maxHeld = 2 * (settings.maxRuns ?? resources.cpuCores);
    this.claims = new ClaimLoop(this.context, {
      tickMs,
      hasRoom: () => capacity.hasRoom() && this.executions.size < maxHeld,
      holdBackMs: () => this.holdBack.leftMs(),
      workerTimeoutSeconds: () => this.heartbeats.timeoutSeconds,
      accept: (run) => this.accept(run),
    });
  }

  /** Claims no more, lets the runs go on for the drain time, then stops them. A second call changes nothing. */
  shutDown(): void {
    if (this.draining.signal.aborted) return;
    this.parts.logger.info({ runs: this.executions.size }, 'shutting down');
    this.draining.abort();
  }

  /**
   * Works until the end. Never rejects.
   * @returns the exit code: 0 after a shutdown; 1 when the service refused the worker, when something broke, or when the
   * end of a run could not be reported
   */
  async run(): Promise<number> {
    const { clock, logger } = this.parts;
    const heart = new AbortController();
    await this.healthFile.forget();
    await this.guard(this.removeLeftovers());
    const beating = this.guard(this.heartbeats.run(heart.signal));
    const claiming = this.guard(this.claimWhenRegistered());
    await whenAborted(this.draining.signal);
    await this.finish(claiming);
    heart.abort();
    await Promise.race([beating, clock.sleep(STOPPING_MS)]);
    const ended = { unreported: this.unreported, left: this.executions.size };
    const fine = this.breakdown === null && ended.unreported === 0 && ended.left === 0;
    logger[fine ? 'info' : 'error'](ended, 'the worker has ended');
    return fine ? 0 : 1;
  }

  /** Waits for the runs, stops those that take too long, and insists on the report of how they ended. */
  private async finish(claiming: Promise<void>): Promise<void> {
    const { clock, logger, settings } = this.parts;
    const broken = this.broken.signal;
    const idle = this.untilIdle(claiming);
    const shipped = idle.then(() => this.lingering.untilShipped());
    await Promise.race([shipped, clock.sleep(settings.drainSeconds * 1000, broken)]);
    this.stopAll(this.breakdown ?? { kind: 'shutting-down' });
    // The service gives the runs up when it has not heard of us for this long.
    await Promise.race([idle, clock.sleep(this.heartbeats.timeoutSeconds * 1000, broken)]);
    for (const execution of this.executions.keys()) {
      if (!broken.aborted)
        logger.error({ run: execution.claimed.id }, 'gave up reporting the end of the run');
      execution.giveUpReporting();
    }
    await Promise.race([idle, clock.sleep(STOPPING_MS)]);
    await Promise.race([shipped, clock.sleep(SHIPPING_MS, broken)]);
    this.lingering.close();
  }

  private async untilIdle(claiming: Promise<void>): Promise<void> {
    await claiming;
    while (this.executions.size > 0) await Promise.all(this.executions.values());
  }

  /** Nothing is claimed before what an earlier life left behind is gone. */
  private async removeLeftovers(): Promise<void> {
    const { runtime, folders, clock, logger, random } = this.parts;
    const { removed, kept } = await folders.prepare();
    if (removed > 0) logger.info({ removed }, 'removed folders of runs of an earlier life');
    if (kept.length > 0) {
      logger.warn({ kept: kept.slice(0, 10) }, 'folders of runs of an earlier life are for root to remove');
    }
    const backoff = new Backoff({ firstMs: 1000, maxMs: 30_000 }, random);
    while (!this.draining.signal.aborted) {
      try {
        const containers = await runtime.removeLeftovers();
        if (containers > 0) logger.info({ containers }, 'removed containers of an earlier life');
        return;
      } catch (error) {
        const fields = { runtime: runtime.name, error: errorText(error) };
        logger.warn(fields, 'could not remove containers of an earlier life, trying again');
      }
      await clock.sleep(backoff.nextMs(), this.draining.signal);
    }
  }

  private async claimWhenRegistered(): Promise<void> {
    await Promise.race([whenAborted(this.registered.signal), whenAborted(this.draining.signal)]);
    await this.claims.run(this.draining.signal);
  }

  /**
   * Starts to execute a claimed run. Another attempt of it that is still here has lost it: that one is stopped, and gone
   * before the new one begins, so that the two never work side by side.
   * @returns false when it is being executed already
   */
  private accept(run: ClaimedRun): boolean {
    const { logger } = this.parts;
    const held = [...this.executions].filter(([{ claimed }]) => claimed.id === run.id);
    if (held.some(([{ claimed }]) => claimed.attempt === run.attempt)) return false;
    logger.info({ run: run.id, attempt: run.attempt, image: run.image }, 'claimed a run');
    this.holdBack.noteClaim();
    const why = `this worker claimed attempt ${run.attempt}`;
    for (const [older] of held) older.stop({ kind: 'not-ours', why });
    const execution = new RunExecution(this.executionParts, run);
    const superseded = held.map(([, end]) => end);
    this.executions.set(execution, this.guard(this.execute(execution, superseded)));
    if (this.stopReason !== null) execution.stop(this.stopReason);
    return true;
  }

  private async execute(execution: RunExecution, after: readonly Promise<void>[]): Promise<void> {
    try {
      await Promise.all(after);
      const end = await execution.run();
      if (end === 'unreported') this.unreported += 1;
      this.holdBack.noteEnd(end);
    } finally {
      this.executions.delete(execution);
      this.claims.wake();
    }
  }

  private stopAll(reason: StopReason): void {
    this.stopReason = reason;
    for (const execution of this.executions.keys()) execution.stop(reason);
  }

  private onRefused({ status, detail }: Refusal): void {
    if (this.breakdown !== null) return;
    this.parts.logger.error(
      { status, detail, service: this.parts.settings.serviceUrl },
      'the service refuses this worker: check SERVICE_URL, SERVICE_API_KEY and its scope',
    );
    this.breakDown({ kind: 'key-refused' });
  }

  private breakDown(reason: StopReason): void {
    this.breakdown ??= reason;
    this.stopAll(reason);
    this.draining.abort();
    this.broken.abort();
    this.lingering.close();
  }

  /** Lets no part of the worker die unnoticed. */
  private async guard(part: Promise<void>): Promise<void> {
    try {
      await part;
    } catch (error) {
      this.parts.logger.fatal({ err: error }, 'the worker broke down');
      this.breakDown({ kind: 'shutting-down' });
    }
  }
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
