import { Injectable } from '@nestjs/common';
import { newId } from '../../runs/storage/new-id.js';
import { isDatabaseUnavailable, isStatementGivenUp } from '../../database/unavailable.js';
import { JournalOverloaded, RunNotFound, RunRejected } from '../../runs/run.errors.js';
import { RunJournal } from '../../runs/journal/run-journal.js';
import { Settings } from '../../config/settings.js';
import { LostRunSearch, type LostRun } from './lost-run-search.js';
import { ReaperGrace } from './reaper-grace.js';
import { ReaperReport, type ReaperCounts } from './reaper-report.js';

/** Runs reclaimed at once: they share a group of the journal. */
export const RUNS_PER_BATCH = 200;

/** Takes runs from workers that are lost, and from workers that do not know of them. */
@Injectable()
export class Reaper {
  constructor(
    private readonly search: LostRunSearch,
    private readonly journal: RunJournal,
    private readonly grace: ReaperGrace,
    private readonly settings: Settings,
    private readonly report: ReaperReport,
  ) {}

  /**
   * One pass over all workers that hold runs, in bounded batches. Any number of processes may run it at once, beside
   * anything else that happens to the runs: the machine compares worker and attempt under the run's lock.
   * @param stop ends the pass between two batches
   * @throws JournalOverloaded, or what the database says while it is away; what was reclaimed until then stays
   */
  async runOnce(stop?: AbortSignal): Promise<ReaperCounts> {
    const counts = { silent: 0, unreported: 0, refused: 0, failed: 0 };
    const workers = new Set<string>();
    let overdueMs = 0;
    try {
      for await (const batch of inBatches(this.search.search())) {
        if (stop?.aborted === true) break;
        for (const { run, fate } of await this.#reclaim(batch)) {
          counts[fate] += 1;
          overdueMs = Math.max(overdueMs, run.overdueMs ?? 0);
          if (fate === run.reason) workers.add(run.workerId);
        }
        this.report.progress();
      }
    } catch (error) {
      // Whatever kept this pass from its end may have kept workers from reporting; a full queue of commands does not.
      if (!(error instanceof JournalOverloaded)) this.grace.databaseFailed();
      throw error;
    }
    this.report.passed(counts, workers, overdueMs);
    return counts;
  }

  /** Hands all in at once, so that they share groups; answers when the last is settled. @throws what concerns them all */
  async #reclaim(
    batch: readonly LostRun[],
  ): Promise<readonly { readonly run: LostRun; readonly fate: keyof ReaperCounts }[]> {
    const settled = await Promise.allSettled(
      batch.map(async (run) => {
        const { runId, workerId, attempt, lastHeartbeatAt } = run;
        await this.journal.change(runId, {
          type: 'reclaim',
          workerId,
          attempt,
          lastHeartbeatAt,
          maxReclaims: this.settings.maxReclaims,
          nextAttempt: { id: newId(), jitter: Math.random() },
        });
        this.report.reclaimed(run);
      }),
    );
    return batch.map((run, i) => {
      const outcome = settled[i];
      return { run, fate: outcome?.status === 'rejected' ? this.#fateOf(run, outcome.reason) : run.reason };
    });
  }

  /** @throws the error when it concerns more than this run */
  #fateOf(run: LostRun, error: unknown): 'refused' | 'failed' {
    if (error instanceof RunRejected || error instanceof RunNotFound) {
      this.report.refused();
      return 'refused';
    }
    const concernsAll = isDatabaseUnavailable(error) && !isStatementGivenUp(error);
    if (concernsAll || error instanceof JournalOverloaded) throw error;
    this.report.couldNotReclaim(run, error);
    return 'failed';
  }
}

/** Each page in pieces of one batch at most. */
async function* inBatches(pages: AsyncIterable<readonly LostRun[]>): AsyncGenerator<readonly LostRun[]> {
  for await (const page of pages) {
    for (let at = 0; at < page.length; at += RUNS_PER_BATCH) yield page.slice(at, at + RUNS_PER_BATCH);
  }
}
