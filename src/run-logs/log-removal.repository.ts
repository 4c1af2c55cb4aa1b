import { Injectable } from '@nestjs/common';
import { execute, type SqlExecutor } from '../database/sql.js';

/** Removed runs that are worked on at the same time. */
const RUNS_AT_ONCE = 20;

const OLDEST_RUNS = `select run_id
               from run_log_removals
              where removed_at < $1::timestamptz
              order by removed_at, run_id
              limit ${RUNS_AT_ONCE}`;

/** SQL by which the logs of removed runs are removed. */
@Injectable()
export class LogRemovalRepository {
  /**
   * Removes rows of the logs of the runs that were removed first.
   * @param before runs removed at this time and later are left for another pass
   * @param limit most rows to remove
   * @returns how many were removed
   */
  removeRows(executor: SqlExecutor, before: Date, limit: number): Promise<number> {
    return execute(
      executor,
      `delete from run_log_rows
        where ctid = any (array(
                select r.ctid
                  from (${OLDEST_RUNS}) oldest
                  join run_log_rows r on r.run_id = oldest.run_id
                 limit $2::integer
                   for update of r skip locked))`,
      [before, limit],
    );
  }

  /**
   * Removes what is left of the same runs, where no row is.
   * @returns of how many runs
   */
  finish(executor: SqlExecutor, before: Date): Promise<number> {
    return execute(
      executor,
      `with finished as (
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
         from finished`,
      [before],
    );
  }
}
