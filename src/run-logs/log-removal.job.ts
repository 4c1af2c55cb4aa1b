import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { inBatches, paced } from '../database/sql/in-batches.js';
import { execute } from '../database/sql/sql.js';
import { LogMetrics } from './log-metrics.js';
import { type JobRun, MINUTE, RETENTION, ScheduledJob } from '../common/scheduling/scheduled-job.js';

/** Milliseconds after the removal of a run until no request that still saw the run can be adding a chunk. */
export const SETTLED_MS = 60_000;

/** Rows removed by one statement at most. */
export const ROWS_PER_BATCH = 500;

/** The runs that were removed first; a trigger on `runs` records them. */
const OLDEST_RUNS = `select run_id
               from run_log_removals
              where removed_at < $1::timestamptz
              order by removed_at, run_id
              limit 200`;

const REMOVE_ROWS = `delete from run_log_rows
        where ctid = any (array(
                select r.ctid
                  from (${OLDEST_RUNS}) oldest
                  join run_log_rows r on r.run_id = oldest.run_id
                 limit $2::integer
                   for update of r skip locked))`;

/** Removes the logs of those of the same runs that have no rows left. */
const FINISH = `with finished as (
         delete from run_log_removals d
          where d.run_id in (${OLDEST_RUNS})
            and not exists (select from run_log_rows r where r.run_id = d.run_id)
      returning d.run_id
       ),
       logs as (
         delete from run_logs l
          using finished f
          where l.run_id = f.run_id
       )
       select run_id
         from finished`;

@Injectable()
export class LogRemovalJob {
  constructor(
    private readonly dataSource: DataSource,
    private readonly metrics: LogMetrics,
  ) {}

  @ScheduledJob({
    name: 'run_log_retention',
    description: 'removes the logs of removed runs',
    ...RETENTION,
    everyMs: 5 * MINUTE,
  })
  async run({ now, stop }: JobRun): Promise<number> {
    return this.runOnce(await now(), stop);
  }

  /**
   * Removes the logs of removed runs in short statements with pauses between them. Several processes may run it.
   * @returns how many runs that were
   */
  async runOnce(now: Date, stop?: AbortSignal): Promise<number> {
    const before = new Date(now.getTime() - SETTLED_MS);
    let runs = 0;
    for (;;) {
      await inBatches(ROWS_PER_BATCH, stop, () =>
        paced(stop, () => execute(this.dataSource, REMOVE_ROWS, [before, ROWS_PER_BATCH])),
      );
      if (stop?.aborted === true) return runs;
      const finished = await paced(stop, () => execute(this.dataSource, FINISH, [before]));
      if (finished === 0) return runs;
      runs += finished;
      this.metrics.removedRuns.inc(finished);
    }
  }
}
