import { Injectable } from '@nestjs/common';
import { isDatabaseUnavailable, isStatementGivenUp } from '../../database/failover/unavailable.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import { JournalOverloaded, RunNotFound, RunRejected } from '../../runs/run.errors.js';
import { GracePeriod } from './grace-period.js';
import { LostRunSearch, type Loss } from './lost-run-search.js';
import { ReaperInstrumentation, type ReaperCounts } from './reaper-instrumentation.js';
import { type JobRun, SECOND, ScheduledJob } from '../../common/scheduling/scheduled-job.js';

/** Runs reclaimed at once: they share a group of the journal. */
export const RUNS_PER_BATCH = 200;

/** Reclaims runs from stale workers, and from workers that do not report them. */
@Injectable()
export class Reaper {
  constructor(
    private readonly search: LostRunSearch,
    private readonly journal: RunJournal,
    private readonly grace: GracePeriod,
    private readonly instrumentation: ReaperInstrumentation,
  ) {}

  @ScheduledJob({
    name: 'reaper',
    isVital: true,
    description: 'takes runs from stale workers',
    everyMs: ({ reaperInterval }) => reaperInterval * SECOND,
    firstDelayMs: 0,
    // It logs the runs and workers itself.
    level: 'debug',
  })
  async run({ stop }: JobRun): Promise<number> {
    const { silent, unreported } = await this.runOnce(stop);
    return silent + unreported;
  }

  /**
   * One pass, in batches. Several processes may run it: the state machine compares worker and attempt under a lock.
   * @throws JournalOverloaded, or an error of the unavailable database; runs reclaimed before stay reclaimed
   */
  async runOnce(stop?: AbortSignal): Promise<ReaperCounts> {
    const counts = { silent: 0, unreported: 0, refused: 0, failed: 0 };
    const workers = new Set<string>();
    let overdueMs = 0;
    try {
      for await (const batch of batches(this.search.search())) {
        if (stop?.aborted === true) break;
        for (const { run, result } of await this.#reclaim(batch)) {
          counts[result] += 1;
          overdueMs = Math.max(overdueMs, run.overdueMs ?? 0);
          if (result === run.reason) workers.add(run.workerId);
        }
        this.instrumentation.batchFinished();
      }
    } catch (error) {
      // What failed this pass may have kept workers from reporting; a full command queue does not.
      if (!(error instanceof JournalOverloaded)) this.grace.databaseFailed();
      throw error;
    }
    this.instrumentation.passFinished(counts, workers, overdueMs);
    return counts;
  }

  /** Submits all at once, so that they share groups. @throws an error that concerns more than one run */
  async #reclaim(
    batch: readonly Loss[],
  ): Promise<readonly { readonly run: Loss; readonly result: keyof ReaperCounts }[]> {
    const settled = await Promise.allSettled(
      batch.map(async (run) => {
        const { runId, workerId, attempt, lastHeartbeatAt } = run;
        await this.journal.change(runId, { type: 'reclaim', workerId, attempt, lastHeartbeatAt });
        this.instrumentation.reclaimed(run);
      }),
    );
    return batch.map((run, i) => {
      const outcome = settled[i];
      const result = outcome?.status === 'rejected' ? this.#resultOf(run, outcome.reason) : run.reason;
      return { run, result };
    });
  }

  /** @throws the error when it concerns more than this run */
  #resultOf(run: Loss, error: unknown): 'refused' | 'failed' {
    if (error instanceof RunRejected || error instanceof RunNotFound) {
      this.instrumentation.refused();
      return 'refused';
    }
    const concernsAll = isDatabaseUnavailable(error) && !isStatementGivenUp(error);
    if (concernsAll || error instanceof JournalOverloaded) throw error;
    this.instrumentation.failed(run, error);
    return 'failed';
  }
}

async function* batches(pages: AsyncIterable<readonly Loss[]>): AsyncGenerator<readonly Loss[]> {
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += RUNS_PER_BATCH) yield page.slice(at, at + RUNS_PER_BATCH);
  }
}
