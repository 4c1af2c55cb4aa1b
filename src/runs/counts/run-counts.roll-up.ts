import { Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { inBatches } from '../../database/sql/in-batches.js';
import { rows } from '../../database/sql/sql.js';
import { whenAlone } from '../../database/advisory-locks.js';
import { ADD_EXCLUDED, COUNT_COLUMNS } from './run-counts.repository.js';
import { type JobRun, MINUTE, ScheduledJob } from '../../common/scheduling/scheduled-job.js';

/** Minutes that are shown one by one. */
export const SHOWN_MINUTES = 60;

const ROWS_PER_BATCH = 2000;

const MINUTE_MS = 60_000;
const ROLL_UP_LOCK = '6031175942280514';

/** Minutes after which no transaction writes to the rows of a second any more. */
const SETTLED_MINUTES = 2;

/** Rolls up the counts: rows of seconds into one per minute, and minutes that are not shown into one for all of them. */
@Injectable()
export class RunCountsRollUp {
  constructor(private readonly dataSource: DataSource) {}

  @ScheduledJob({
    name: 'run_counts_roll_up',
    description: 'sums up the counts of runs by the second and by the minute',
    everyMs: 2 * MINUTE,
    level: 'debug',
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.runOnce(await now(), stop);
  }

  /** One pass, in short transactions, by one process at a time. @returns how many rows were rolled up */
  runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const minute = Math.floor(now.getTime() / MINUTE_MS);
    const seconds = new Date((minute - SETTLED_MINUTES) * MINUTE_MS);
    const minutes = new Date((minute - SHOWN_MINUTES) * MINUTE_MS);
    return inBatches(ROWS_PER_BATCH, stop, async () => {
      const removed = await whenAlone(this.dataSource, ROLL_UP_LOCK, (manager) =>
        this.#batch(manager, seconds, minutes),
      );
      return removed ?? 0;
    });
  }

  /** Rolls up rows of seconds and minutes before the two times; skips rows that a transaction is writing to. */
  async #batch(manager: EntityManager, seconds: Date, minutes: Date): Promise<number> {
    const [row] = await rows<{ removed: string }>(
      manager,
      `with old as materialized (
         select since, slot
           from run_counts
          where since > '-infinity'
            and (since < $2::timestamptz or since < $1::timestamptz and slot <> 0)
          order by since, slot
          limit $3::integer
            for update skip locked
       ),
       removed as (
         delete from run_counts c
          using old
          where c.since = old.since
            and c.slot = old.slot
      returning case
                  when c.since < $2::timestamptz then '-infinity'
                  else date_trunc('minute', c.since)
                end as minute,
                ${COUNT_COLUMNS.map((column) => `c.${column}`).join(', ')}
       ),
       added as (
         insert into run_counts as c (since, slot, ${COUNT_COLUMNS.join(', ')})
         select minute, 0, ${COUNT_COLUMNS.map((column) => `sum(${column})`).join(', ')}
           from removed
          group by minute
             on conflict (since, slot) do update
            set ${ADD_EXCLUDED}
       )
       select count(*) as removed
         from removed`,
      [seconds.toISOString(), minutes.toISOString(), ROWS_PER_BATCH],
    );
    return Number(row?.removed ?? 0);
  }
}
