import { Injectable } from '@nestjs/common';
import { Counter, Gauge, Registry } from 'prom-client';
import { Log } from '../../common/logging/logger.js';
import { LOSS_REASONS, type LostRun } from './lost-run-search.js';
import { ReaperClock } from './reaper-clock.js';

/** What a pass did, in runs. */
export interface ReaperCounts {
  /** Taken from workers that had been silent for too long. */
  readonly silent: number;
  /** Taken from workers that do not know of them. */
  readonly unreported: number;
  /** Left alone because somebody was faster: the run has ended, gone on, or another reaper took it. */
  readonly refused: number;
  /** Failed for a reason of their own; the next pass finds them again. */
  readonly failed: number;
}

/** Workers named in a line of the log at most. */
const NAMED_WORKERS = 20;

/** What the reaper tells about its work: metrics, the log, and when it last came through. */
@Injectable()
export class ReaperReport {
  readonly #reclaims: Counter<'reason'>;
  readonly #refused: Counter;
  readonly #oldestOverdue: Gauge;
  #progressAt: number;

  constructor(
    registry: Registry,
    private readonly log: Log,
    private readonly clock: ReaperClock,
  ) {
    const registers = [registry];
    this.#progressAt = clock.now().steady;
    this.#reclaims = new Counter({
      name: 'longshore_reaper_reclaims_total',
      help: 'Runs taken from lost workers, by reason',
      labelNames: ['reason'],
      registers,
    });
    for (const reason of LOSS_REASONS) this.#reclaims.inc({ reason }, 0);
    this.#refused = new Counter({
      name: 'longshore_reaper_refused_total',
      help: 'Reclaims for which somebody else was faster',
      registers,
    });
    this.#oldestOverdue = new Gauge({
      name: 'longshore_reaper_oldest_overdue_seconds',
      help: 'Time by which the longest overdue run that the last pass found had been left with a lost worker',
      registers,
      aggregator: 'max',
    });
    const progressAge = (): number => this.sinceProgressMs() / 1000;
    // oxlint-disable-next-line no-new -- the registry keeps it
    new Gauge({
      name: 'longshore_reaper_seconds_since_pass',
      help: 'Time since the reaper last finished a pass, or a part of a long one',
      registers,
      // Each process has a reaper, and one that comes through is enough.
      aggregator: 'min',
      collect() {
        this.set(progressAge());
      },
    });
  }

  /** Milliseconds since the last pass, or part of a long one, was finished; at first, since the process started. */
  sinceProgressMs(): number {
    return this.clock.now().steady - this.#progressAt;
  }

  /** A part of a pass is done. */
  progress(): void {
    this.#progressAt = this.clock.now().steady;
  }

  /** A run was taken from its worker. */
  reclaimed({ runId, attempt, workerId, reason }: LostRun): void {
    this.#reclaims.inc({ reason });
    this.log.debug('reclaimed a run', { runId, attempt, workerId, reason });
  }

  /** Somebody was faster. */
  refused(): void {
    this.#refused.inc();
  }

  /** A run could not be taken from its worker, for a reason of its own. */
  couldNotReclaim({ runId, attempt, workerId }: LostRun, error: unknown): void {
    this.log.warn('could not reclaim a run yet', { runId, attempt, workerId, error });
  }

  /**
   * A pass has gone through everything.
   * @param workers the workers whose runs were taken
   * @param overdueMs the longest time by which a run was overdue
   */
  passed(counts: ReaperCounts, workers: ReadonlySet<string>, overdueMs: number): void {
    this.progress();
    this.#oldestOverdue.set(overdueMs / 1000);
    if (Object.values(counts).some((count) => count > 0)) {
      this.log.info('reclaimed runs of lost workers', {
        ...counts,
        workers: [...workers].slice(0, NAMED_WORKERS),
        lostWorkers: workers.size,
      });
    }
  }
}
