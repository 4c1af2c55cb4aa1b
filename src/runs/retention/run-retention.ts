import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { whenAlone } from '../../database/advisory-locks.js';
import { paced } from '../../database/sql/in-batches.js';
import { sendNotice, shortRunId } from '../../database/notices/commit-notice.js';
import { Settings } from '../../config/settings.js';
import { addRunCounts } from '../counts/run-counts.repository.js';
import { StateCountDelta } from '../counts/state-count-delta.js';
import { TERMINAL_STATES, type TerminalState } from '../machine/run-state.js';
import { RunRetentionRepository, type EndedPlace, type EndedRun } from './run-retention.repository.js';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../../common/scheduling/scheduled-job.js';

const DAY_MS = 86_400_000;
const RETENTION_LOCK = '2954417083366102';

export const RUNS_PER_BATCH = 500;

/** Timeline entries after which a transaction takes no further run, and that one statement removes at most. */
export const EVENTS_PER_BATCH = 20_000;

interface Due {
  readonly state: TerminalState;
  /** They ended before this time. */
  readonly before: Date;
  readonly now: Date;
}

interface Batch {
  readonly removed: number;
  /** Where the next batch continues; null at the end. */
  readonly end: EndedPlace | null;
}

/** Removes runs that ended before the retention time, with everything that belongs to them. */
@Injectable()
export class RunRetention {
  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: RunRetentionRepository,
    @Inject(Settings) private readonly settings: Pick<Settings, 'runRetentionDays'>,
  ) {}

  @ScheduledJob({
    name: 'run_retention',
    description: 'removes runs that ended before the retention time',
    ...RETENTION,
    everyMs: 10 * MINUTE,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.runOnce(await now(), stop);
  }

  /**
   * Removes all runs that are due, in short transactions with pauses between them, by one process at a time.
   * @returns how many runs were removed
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const { runRetentionDays } = this.settings;
    if (runRetentionDays === 0) return 0;
    const before = new Date(now.getTime() - runRetentionDays * DAY_MS);
    let removed = 0;
    for (const state of TERMINAL_STATES) removed += await this.#remove({ state, before, now }, stop);
    return removed;
  }

  async #remove(due: Due, stop: AbortSignal | undefined): Promise<number> {
    let place: EndedPlace | null = null;
    let removed = 0;
    do {
      if (stop?.aborted === true) break;
      const after: EndedPlace | null = place;
      const batch: Batch | null = await paced(stop, () =>
        whenAlone(this.dataSource, RETENTION_LOCK, (manager) => this.#removeBatch(manager, due, after)),
      );
      if (!batch) return removed;
      removed += batch.removed;
      place = batch.end;
    } while (place);
    return removed;
  }

  async #removeBatch(
    manager: EntityManager,
    { state, before, now }: Due,
    after: EndedPlace | null,
  ): Promise<Batch> {
    const listed = await this.repository.listEnded(manager, state, before, after, RUNS_PER_BATCH);
    const taken = bounded(listed);
    const due = taken.filter(({ isDue }) => isDue).map(({ id }) => id);
    const ids = due.length > 0 ? await this.repository.lockDue(manager, state, before, due) : [];
    if (ids.length > 0) {
      await this.repository.remove(manager, ids, EVENTS_PER_BATCH);
      const delta = new StateCountDelta();
      delta.remove(state, ids.length);
      await sendNotice(manager, { runs: ids.map(shortRunId) }, addRunCounts(delta, now));
    }
    const isLast = taken.length === listed.length && listed.length < RUNS_PER_BATCH;
    return {
      removed: ids.length,
      end: isLast ? null : (taken.at(-1) ?? null),
    };
  }
}

/** The first runs until those that are due have EVENTS_PER_BATCH timeline entries; at least one. */
function bounded(listed: readonly EndedRun[]): readonly EndedRun[] {
  let events = 0;
  const end = listed.findIndex((run) => {
    if (run.isDue) events += run.events;
    return events >= EVENTS_PER_BATCH;
  });
  return end === -1 ? listed : listed.slice(0, end + 1);
}
