import { Clock } from '../../common/clock.js';
import { ScheduledJob, SECOND } from '../../common/scheduling/scheduled-job.js';
import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { CircuitBreaker } from '../../database/failover/circuit-breaker.js';
import { CommitNotices } from '../../database/notices/commit-notices.js';

/** A pause of up to two of these parts of the worker timeout may go undetected: one between two checks, one on top. */
const PARTS = 8;
/** Normal delay of timers in milliseconds, for short worker timeouts. */
const MIN_TOLERANCE_MS = 100;

export function pauseCheckMs(timeoutMs: number): number {
  return Math.max(1, timeoutMs / PARTS);
}

/** One moment on two clocks, in milliseconds. */
interface Moment {
  /** Monotonic; it may stand still while the machine is suspended. */
  readonly steady: number;
  /** Epoch time, by which a pool in memory stamps heartbeats; it may be set. */
  readonly wall: number;
}

/**
 * The reaper reclaims runs only after one whole worker timeout in which every worker could report. The grace period
 * restarts when the server begins to listen, after a pause of this process (a gap between two calls of `check`; shorter
 * ones than a quarter of the timeout may go undetected), a database outage, and a jump of a clock that stamps heartbeats.
 */
export class GracePeriod {
  readonly checkEveryMs: number;
  readonly #toleranceMs: number;
  #checked: Moment | undefined;
  #database: { readonly steady: number; readonly time: number } | undefined;
  #isDatabaseUnavailable = false;
  #startedAt = 0;

  /** @param timeoutMs worker timeout in milliseconds */
  constructor(
    readonly timeoutMs: number,
    readonly clock: Clock,
  ) {
    this.checkEveryMs = pauseCheckMs(timeoutMs);
    this.#toleranceMs = Math.max(timeoutMs / PARTS, MIN_TOLERANCE_MS);
  }

  get hasStarted(): boolean {
    return this.#checked !== undefined;
  }

  @ScheduledJob({
    name: 'reaper_pause_check',
    isVital: true,
    description: 'makes the reaper wait after a pause of the process, in which workers could not report',
    everyMs: ({ workerTimeout }) => pauseCheckMs(workerTimeout * SECOND),
    jitterMs: 0,
    firstDelayMs: 0,
    level: 'debug',
  })
  run(): number {
    if (this.hasStarted) this.check();
    else this.start();
    return 0;
  }

  start(): void {
    this.#checked = this.#moment();
    this.#startedAt = this.#checked.steady;
  }

  /** Restarts the period after workers could not report; without effect before the start. */
  restart(): void {
    if (this.hasStarted) this.start();
  }

  /** A query has failed: the period restarts when the database answers again. */
  databaseFailed(): void {
    this.#isDatabaseUnavailable = true;
  }

  /** Restarts the period if this process was paused since the last check. */
  check(): void {
    if (!this.#checked) return;
    const now = this.#moment();
    const gap = Math.max(now.steady - this.#checked.steady, now.wall - this.#checked.wall);
    if (gap > this.checkEveryMs + this.#toleranceMs) this.start();
    else this.#checked = now;
  }

  /**
   * Restarts the period at the end of an outage, after a slow response, during which heartbeats may have failed, and
   * after a jump of the database's clock, which stamps heartbeats in a shared pool.
   * @param askedAt steady time of the query
   */
  databaseAnswered(time: Date, askedAt: number): void {
    const steady = this.clock.now();
    const before = this.#database;
    this.#database = { steady, time: time.getTime() };
    const jump = before ? time.getTime() - before.time - (steady - before.steady) : 0;
    if (this.#isDatabaseUnavailable || jump > this.#toleranceMs || steady - askedAt > this.#toleranceMs) {
      this.restart();
    }
    this.#isDatabaseUnavailable = false;
  }

  isOver(): boolean {
    this.check();
    return this.remainingMs() <= 0;
  }

  /** Milliseconds that are left; Infinity before the server listens and while the database is unavailable. */
  remainingMs(): number {
    if (!this.#checked || this.#isDatabaseUnavailable) return Infinity;
    return Math.max(0, this.#startedAt + this.timeoutMs - this.clock.now());
  }

  #moment(): Moment {
    return { steady: this.clock.now(), wall: this.clock.epochMs() };
  }
}

/** Restarts the grace period after outages between two passes: of a request, or of the listening connection. */
@Injectable()
export class OutageDetector implements OnModuleInit, OnModuleDestroy {
  #unsubscribe: readonly (() => void)[] = [];

  constructor(
    private readonly notices: CommitNotices,
    private readonly breaker: CircuitBreaker,
    private readonly grace: GracePeriod,
  ) {}

  onModuleInit(): void {
    const onClose = (): void => this.grace.restart();
    this.breaker.on('close', onClose);
    let wasConnected = false;
    this.#unsubscribe = [
      () => this.breaker.off('close', onClose),
      this.notices.subscribe((notice) => {
        if (notice !== null) return;
        // null announces a connection; from the second time on, the one before was lost.
        if (wasConnected) this.grace.restart();
        wasConnected = true;
      }),
    ];
  }

  onModuleDestroy(): void {
    for (const end of this.#unsubscribe) end();
  }
}
