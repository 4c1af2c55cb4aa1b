import { Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Log } from '../common/logging/logger.js';
import { JobScheduler } from '../common/scheduling/job-scheduler.js';
import { CommitNotices } from '../database/notices/commit-notices.js';
import { isDatabaseUnavailable, isStatementGivenUp } from '../database/failover/unavailable.js';
import { RunJournal } from './journal/run-journal.js';
import { JournalOverloaded, RunNotFound, RunRejected } from './run.errors.js';
import { type DueRun, listDue, nextDueInMs, postponeTimers, removeTimers } from './storage/run-timers.js';
import { type JobRun, MINUTE, SECOND, ScheduledJob } from '../common/scheduling/scheduled-job.js';

export const RUN_TIMEOUTS = 'run_timeouts';

export const RUNS_PER_BATCH = 200;

/** Milliseconds until the next try after the timer of a run could not be applied. */
export const POSTPONE_MS = 10_000;

/** Pause after a run of the job that found only runs that another process handled. */
const OTHERS_PAUSE_MS = 250;

/** Explanations in one run of the job. Runs that are alike share one; further ones get none. */
const MAX_EXPLANATIONS = 10;

/** Says why a run has not been started, as a part of a sentence. */
export interface StartReasons {
  whyNotStarted(runId: string): Promise<string>;
}

export interface TimeoutCounts {
  /** Their timers were applied. */
  readonly applied: number;
  /** Nothing was due any more: another process was faster, or the run no longer exists. */
  readonly nothingDue: number;
  /** The error is in the log. */
  readonly failed: number;
}

type Result = keyof TimeoutCounts | 'gone';

/** Applies delayed starts, back-offs and timeouts of runs that have elapsed. Commits announce when the next timer is due. */
@Injectable()
export class RunTimeoutsJob implements OnModuleInit, OnModuleDestroy {
  #unsubscribe: () => void = () => undefined;
  #reasons: StartReasons | null = null;

  constructor(
    private readonly dataSource: DataSource,
    private readonly journal: RunJournal,
    private readonly notices: CommitNotices,
    private readonly scheduler: JobScheduler,
    private readonly log: Log,
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices.subscribe((notice) => {
      const inMs = notice === null ? 0 : notice.timerInMs;
      if (inMs !== undefined) this.scheduler.runWithin(RUN_TIMEOUTS, inMs);
    });
  }

  /** Sets what explains start timeouts. */
  explainBy(reasons: StartReasons): void {
    this.#reasons = reasons;
  }

  onModuleDestroy(): void {
    this.#unsubscribe();
  }

  @ScheduledJob({
    name: RUN_TIMEOUTS,
    isVital: true,
    description:
      'carries out timeouts, delayed starts, ends of back-offs and avoidances; also runs when the next one is due',
    everyMs: 5 * MINUTE,
    jitterMs: 20,
    firstDelayMs: 0,
    level: 'debug',
    retry: { firstMs: 100, longestMs: 10 * SECOND },
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return (await this.runOnce(await now(), stop)).applied;
  }

  /**
   * Applies the due timers in batches and schedules the next run. The state machine checks each timer when it changes
   * its run, so it is applied once. A timer that cannot be applied is postponed, so it delays no others.
   * @throws JournalOverloaded, or database errors while the database is unavailable; finished batches stay applied
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<TimeoutCounts> {
    const { manager } = this.dataSource;
    const counts = { applied: 0, nothingDue: 0, failed: 0 };
    const reasons = new Map<string, string>();
    for (let isLast = false; !isLast;) {
      const due = await listDue(manager, now, RUNS_PER_BATCH);
      await this.#explain(due, reasons);
      const results = await this.#applyAll(due, reasons);
      for (const [, result] of results) counts[result === 'gone' ? 'nothingDue' : result] += 1;
      await this.#putAside(results, now);
      isLast = due.length < RUNS_PER_BATCH || stop?.aborted === true;
    }
    const inMs = await nextDueInMs(manager);
    const pauseMs = counts.applied === 0 && counts.nothingDue > 0 ? OTHERS_PAUSE_MS : 0;
    if (inMs !== null) this.scheduler.runWithin(RUN_TIMEOUTS, Math.max(inMs, pauseMs));
    return counts;
  }

  /** Adds the reasons of runs that have not been started in time, by what they wait for. A timeout does not depend on its reason. */
  async #explain(due: readonly DueRun[], reasons: Map<string, string>): Promise<void> {
    for (const { runId, unstartedLike } of due) {
      if (reasons.size === MAX_EXPLANATIONS || this.#reasons === null) return;
      if (unstartedLike === null || reasons.has(unstartedLike)) continue;
      try {
        reasons.set(unstartedLike, await this.#reasons.whyNotStarted(runId));
      } catch (error) {
        this.log.debug('could not explain a start timeout', { runId, error });
        return;
      }
    }
  }

  /** Submits all commands at once, so that they share groups. @throws errors that concern all of them */
  async #applyAll(
    due: readonly DueRun[],
    reasons: ReadonlyMap<string, string>,
  ): Promise<readonly (readonly [string, Result])[]> {
    const settled = await Promise.allSettled(
      due.map(
        async ({ runId, unstartedLike }) =>
          [runId, await this.#apply(runId, reasons.get(unstartedLike ?? ''))] as const,
      ),
    );
    return settled.map((outcome) => {
      if (outcome.status === 'rejected') throw outcome.reason;
      return outcome.value;
    });
  }

  async #apply(runId: string, reason: string | undefined): Promise<Result> {
    try {
      await this.journal.change(runId, { type: 'elapse', reason });
      return 'applied';
    } catch (error) {
      if (error instanceof RunRejected) return 'nothingDue';
      if (error instanceof RunNotFound) return 'gone';
      const concernsAll = isDatabaseUnavailable(error) && !isStatementGivenUp(error);
      if (concernsAll || error instanceof JournalOverloaded) throw error;
      this.log.error('could not apply the timeout of a run', { runId, error });
      return 'failed';
    }
  }

  /** Postpones the timers that were not applied, and removes those of runs that no longer exist. */
  async #putAside(results: readonly (readonly [string, Result])[], now: Date): Promise<void> {
    const { manager } = this.dataSource;
    const idsOf = (...wanted: readonly Result[]): string[] =>
      results.flatMap(([id, result]) => (wanted.includes(result) ? [id] : []));
    const later = idsOf('nothingDue', 'failed');
    const gone = idsOf('gone');
    const until = new Date(now.getTime() + POSTPONE_MS);
    if (later.length > 0) await postponeTimers(manager, later, now, until);
    if (gone.length > 0) await removeTimers(manager, gone);
  }
}
