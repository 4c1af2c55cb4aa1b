import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { newId } from '../storage/new-id.js';
import { isDatabaseUnavailable, isStatementGivenUp } from '../../database/unavailable.js';
import { Log } from '../../common/logging/logger.js';
import { JournalOverloaded, RunNotFound, RunRejected } from '../run.errors.js';
import { RunJournal } from '../journal/run-journal.js';
import { DeadlineRepository } from './deadline.repository.js';

/** Runs whose deadlines are carried out at once. */
export const RUNS_PER_BATCH = 200;

/** Milliseconds after which a run is looked at again whose deadline could not be carried out. */
export const POSTPONE_MS = 10_000;

/** What a pass did, in runs. */
export interface DeadlineCounts {
  /** Deadlines that this pass carried out. */
  readonly carriedOut: number;
  /** Nothing was due any more: somebody else was faster, or the run is no more. */
  readonly nothingDue: number;
  /** Failed for a reason of their own, which is in the log. */
  readonly failed: number;
}

type Fate = keyof DeadlineCounts | 'gone';

/** Carries out what time itself does to runs: ends of back-offs and of time budgets. */
@Injectable()
export class DeadlineJob {
  constructor(
    private readonly dataSource: DataSource,
    private readonly deadlines: DeadlineRepository,
    private readonly journal: RunJournal,
    private readonly log: Log,
  ) {}

  /**
   * One pass over the deadlines that have passed, in bounded batches. Any number of processes may run it at once: each
   * deadline is judged by the machine under the run's lock, so it is carried out once. What could not be carried out is
   * looked at again after a while, so it neither keeps a pass busy nor stands in the way of others.
   * @param now the database's time
   * @param stop ends the pass between two batches
   * @throws JournalOverloaded, or what the database says while it is away; what was carried out until then stays
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<DeadlineCounts> {
    const { manager } = this.dataSource;
    const counts = { carriedOut: 0, nothingDue: 0, failed: 0 };
    for (;;) {
      const due = await this.deadlines.listDue(manager, now, RUNS_PER_BATCH);
      const fates = await this.#carryOut(due);
      counts.carriedOut += idsOf(fates, ['carriedOut']).length;
      counts.nothingDue += idsOf(fates, ['nothingDue', 'gone']).length;
      counts.failed += idsOf(fates, ['failed']).length;
      await this.#setAside(fates, now);
      if (due.length < RUNS_PER_BATCH || stop?.aborted === true) return counts;
    }
  }

  /** Hands all in at once, so that they share groups; answers when the last is settled. @throws what concerns them all */
  async #carryOut(runIds: readonly string[]): Promise<ReadonlyMap<string, Fate>> {
    const settled = await Promise.allSettled(runIds.map((id) => this.#elapse(id)));
    return new Map(
      runIds.map((id, i) => {
        const outcome = settled[i];
        if (outcome?.status !== 'fulfilled') throw outcome?.reason;
        return [id, outcome.value];
      }),
    );
  }

  async #elapse(runId: string): Promise<Fate> {
    try {
      const nextAttempt = { id: newId(), jitter: Math.random() };
      await this.journal.change(runId, { type: 'elapse', nextAttempt });
      return 'carriedOut';
    } catch (error) {
      if (error instanceof RunRejected) return 'nothingDue';
      if (error instanceof RunNotFound) return 'gone';
      const concernsAll = isDatabaseUnavailable(error) && !isStatementGivenUp(error);
      if (concernsAll || error instanceof JournalOverloaded) throw error;
      this.log.error('could not carry out a deadline', { runId, error });
      return 'failed';
    }
  }

  async #setAside(fates: ReadonlyMap<string, Fate>, now: Date): Promise<void> {
    const { manager } = this.dataSource;
    const later = idsOf(fates, ['nothingDue', 'failed']);
    const gone = idsOf(fates, ['gone']);
    const until = new Date(now.getTime() + POSTPONE_MS);
    if (later.length > 0) await this.deadlines.postpone(manager, later, now, until);
    if (gone.length > 0) await this.deadlines.remove(manager, gone);
  }
}

function idsOf(fates: ReadonlyMap<string, Fate>, wanted: readonly Fate[]): string[] {
  return [...fates].flatMap(([id, fate]) => (wanted.includes(fate) ? [id] : []));
}
