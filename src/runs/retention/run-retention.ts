import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { whenAlone } from '../../database/advisory-locks.js';
import { Settings } from '../../config/settings.js';
import { RunCountsRepository } from '../counts/run-counts.repository.js';
import { StateCountDelta } from '../counts/state-count-delta.js';
import { TERMINAL_STATES, type TerminalState } from '../machine/run-state.js';
import { RunRetentionRepository, type EndedPlace, type EndedRun } from './run-retention.repository.js';

const DAY_MS = 86_400_000;
const RETENTION_LOCK = '2954417083366102';

/** Runs that one transaction looks at. */
export const RUNS_PER_BATCH = 500;

/** Timeline entries at which a transaction takes no further run, and that one statement removes. */
export const EVENTS_PER_BATCH = 20_000;

/** Runs that one pass looks at in each state; the next pass goes on from there. */
const RUNS_PER_PASS = 200_000;

/** What one transaction did. */
interface Batch {
  readonly removed: number;
  readonly looked: number;
  /** Where it ended; null: there was nothing more to look at. */
  readonly reached: EndedPlace | null;
}

/** Removes runs that ended longer ago than the settings say, with everything that belongs to them. */
@Injectable()
export class RunRetention {
  /** Where the next pass goes on, in states whose runs were too many for one pass. */
  readonly #from = new Map<TerminalState, EndedPlace>();

  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: RunRetentionRepository,
    private readonly counts: RunCountsRepository,
    @Inject(Settings) private readonly settings: Pick<Settings, 'runRetentionDays'>,
  ) {}

  /**
   * One pass, in batches that are each a short transaction. Several processes may run it: one at a time works, the
   * others leave it to that one.
   * @param now the database's time
   * @param stop ends the pass between two batches
   * @returns how many runs were removed
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const { runRetentionDays } = this.settings;
    if (runRetentionDays === 0) return 0;
    const before = new Date(now.getTime() - runRetentionDays * DAY_MS);
    let removed = 0;
    for (const state of TERMINAL_STATES) removed += await this.#clear(state, before, now, stop);
    return removed;
  }

  async #clear(
    state: TerminalState,
    before: Date,
    now: Date,
    stop: AbortSignal | undefined,
  ): Promise<number> {
    let from = this.#from.get(state) ?? null;
    let removed = 0;
    let looked = 0;
    for (;;) {
      if (looked >= RUNS_PER_PASS || stop?.aborted === true) break;
      const after = from;
      const batch = await whenAlone(this.dataSource, RETENTION_LOCK, (manager) =>
        this.#batch(manager, { state, before, now, after }),
      );
      if (!batch) return removed;
      removed += batch.removed;
      looked += batch.looked;
      from = batch.reached;
      if (!from) break;
    }
    if (from) this.#from.set(state, from);
    else this.#from.delete(state);
    return removed;
  }

  async #batch(
    manager: EntityManager,
    {
      state,
      before,
      now,
      after,
    }: { state: TerminalState; before: Date; now: Date; after: EndedPlace | null },
  ): Promise<Batch> {
    const listed = await this.repository.listEnded(manager, state, before, after, RUNS_PER_BATCH);
    const taken = bounded(listed);
    const due = taken.flatMap(({ id, isDue }) => (isDue ? [id] : []));
    const ids = due.length > 0 ? await this.repository.lockDue(manager, state, before, due) : [];
    if (ids.length > 0) {
      await this.repository.remove(manager, ids, EVENTS_PER_BATCH);
      const tally = new StateCountDelta();
      tally.remove(state, ids.length);
      await this.counts.add(manager, tally, now);
    }
    const isLast = taken.length === listed.length && listed.length < RUNS_PER_BATCH;
    return { removed: ids.length, looked: taken.length, reached: isLast ? null : (taken.at(-1) ?? null) };
  }
}

/** The first of the runs, until those that are due have many timeline entries; one at least. */
function bounded(listed: readonly EndedRun[]): readonly EndedRun[] {
  let events = 0;
  const end = listed.findIndex((run) => {
    if (run.isDue) events += run.events;
    return events >= EVENTS_PER_BATCH;
  });
  return end === -1 ? listed : listed.slice(0, end + 1);
}
