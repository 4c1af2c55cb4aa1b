import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { whenAlone } from '../../database/advisory-locks.js';
import { paced } from '../../database/sql/in-batches.js';
import { rows } from '../../database/sql/sql.js';
import { ConcurrencyKeys } from './concurrency-keys.js';
import { PLAIN_LANE } from './lane.js';
import { LaneRepository } from './lane.repository.js';
import { type JobRun, MINUTE, ScheduledJob } from '../../common/scheduling/scheduled-job.js';

/** Rows that one transaction checks. */
const ROWS_PER_BATCH = 500;

const CLEAN_UP_LOCK = '6031175942280522';

/** Removes the unused rows of one batch. @returns the last row that was looked at; null: there are no more */
type Batch = (
  manager: EntityManager,
  after: string,
  limit: number,
) => Promise<{ readonly last: string | null; readonly removed: number }>;

/** Frees slots whose time is over, and removes keys and lanes that no run uses. */
@Injectable()
export class QueueCleanupJob {
  constructor(
    private readonly dataSource: DataSource,
    private readonly keys: ConcurrencyKeys,
    private readonly lanes: LaneRepository,
  ) {}

  @ScheduledJob({
    name: 'queue_cleanup',
    description: 'frees overdue slots of ended runs, removes keys and lanes that no run uses',
    everyMs: MINUTE,
    level: 'debug',
  })
  run({ stop }: JobRun): Promise<number> {
    return this.runOnce(stop);
  }

  /** One pass in short transactions, by one process at a time. @returns how many rows were removed */
  async runOnce(stop?: AbortSignal): Promise<number> {
    if (!(await this.#isInUse())) return 0;
    const slots = await whenAlone(this.dataSource, CLEAN_UP_LOCK, (manager) =>
      this.keys.releaseOverdueSlots(manager),
    );
    const keys = await this.#walk('', stop, (...batch) => this.keys.removeUnused(...batch));
    const lanes = await this.#walk(PLAIN_LANE, stop, (...batch) => this.lanes.removeUnused(...batch));
    return (slots ?? 0) + keys + lanes;
  }

  /** Whether there is a key, a slot, or a lane but the plain one. */
  async #isInUse(): Promise<boolean> {
    const [found] = await rows<{ exists: boolean }>(
      this.dataSource,
      `select exists (select from concurrency_keys)
           or exists (select from concurrency_slots)
           or exists (select from lanes where id > $1::uuid) as "exists"`,
      [PLAIN_LANE],
    );
    return found?.exists === true;
  }

  async #walk(first: string, stop: AbortSignal | undefined, batch: Batch): Promise<number> {
    let removed = 0;
    for (let after: string | null = first; after !== null;) {
      if (stop?.aborted === true) break;
      const from: string = after;
      const done = await paced(stop, () =>
        whenAlone(this.dataSource, CLEAN_UP_LOCK, (manager) => batch(manager, from, ROWS_PER_BATCH)),
      );
      if (done === null) break;
      removed += done.removed;
      after = done.last;
    }
    return removed;
  }
}
