import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { Log } from '../../common/logging/logger.js';
import { Settings } from '../../config/settings.js';
import { HealthChecks } from '../../health/health-checks.js';
import { GracePeriod } from './grace-period.js';
import { LOSS_REASONS, type Loss } from './lost-run-search.js';

/** Runs that a pass handled, by result. */
export interface ReaperCounts {
  readonly silent: number;
  readonly unreported: number;
  /** The run has ended, started another attempt, or was reclaimed by another process. */
  readonly refused: number;
  /** Failed for a reason of their own; the next pass tries again. */
  readonly failed: number;
}

/** Workers named in a line of the log at most. */
const MAX_LOGGED_WORKERS = 20;

/** The reaper is stalled after this number of intervals without a finished pass, plus the time of a slow query. */
const STALLED_INTERVALS = 5;
const STALLED_EXTRA_MS = 25_000;

@Injectable()
export class ReaperInstrumentation {
  readonly #reclaims: Counter<'reason'>;
  readonly #refused: Counter;
  readonly #oldestOverdue: Gauge;
  #progressAt: number;

  constructor(
    registry: Registry,
    checks: HealthChecks,
    private readonly log: Log,
    private readonly grace: GracePeriod,
    private readonly settings: Settings,
  ) {
    checks.register('reaper', () => this.health());
    const registers = [registry];
    this.#progressAt = grace.clock.now();
    this.#reclaims = new Counter({
      name: 'longshore_reaper_reclaims_total',
      help: 'Runs reclaimed from stale workers (reason silent) and from workers that do not name them (unreported)',
      labelNames: ['reason'],
      registers,
    });
    for (const reason of LOSS_REASONS) this.#reclaims.inc({ reason }, 0);
    this.#refused = new Counter({
      name: 'longshore_reaper_refused_total',
      help: 'Reclaims of runs that had changed in the meantime',
      registers,
    });
    this.#oldestOverdue = new Gauge({
      name: 'longshore_reaper_oldest_overdue_seconds',
      help: 'Longest time, in the last pass, from the worker timeout of a stale worker to the reclaim of its run',
      registers,
      aggregator: 'max',
    });
    const progressAge: Gauge = new Gauge({
      name: 'longshore_reaper_seconds_since_pass',
      help: 'Time since the reaper last finished a pass or a batch of one',
      registers,
      // Every process has a reaper; one that finishes is enough.
      aggregator: 'min',
      collect: () => progressAge.set(this.sinceProgressMs() / 1000),
    });
  }

  health(): 'ok' | 'waiting' | 'stalled' {
    if (!this.grace.hasStarted) return 'waiting';
    const limit = STALLED_INTERVALS * this.settings.reaperInterval * 1000 + STALLED_EXTRA_MS;
    if (this.sinceProgressMs() > limit) return 'stalled';
    return this.grace.remainingMs() > 0 ? 'waiting' : 'ok';
  }

  /** Milliseconds since a pass or a batch finished, at first since the process started. */
  sinceProgressMs(): number {
    return this.grace.clock.now() - this.#progressAt;
  }

  batchFinished(): void {
    this.#progressAt = this.grace.clock.now();
  }

  reclaimed({ runId, attempt, workerId, reason }: Loss): void {
    this.#reclaims.inc({ reason });
    this.log.debug('reclaimed a run', { runId, attempt, workerId, reason });
  }

  refused(): void {
    this.#refused.inc();
  }

  failed({ runId, attempt, workerId }: Loss, error: unknown): void {
    this.log.warn('could not reclaim a run yet', { runId, attempt, workerId, error });
  }

  passFinished(counts: ReaperCounts, workers: ReadonlySet<string>, overdueMs: number): void {
    this.batchFinished();
    this.#oldestOverdue.set(overdueMs / 1000);
    if (Object.values(counts).some((count) => count > 0)) {
      this.log.info('reclaimed runs of stale workers', {
        ...counts,
        workers: [...workers].slice(0, MAX_LOGGED_WORKERS),
        staleWorkers: workers.size,
      });
    }
  }
}
