import { Injectable } from '@nestjs/common';
import { rows, type SqlExecutor } from '../../database/sql.js';

/** SQL that finds the run that has been there for longest without a worker. */
@Injectable()
export class OldestPendingRepository {
  /**
   * When the oldest run that is PENDING was created; null when none is. It is the last entry of its state in the index
   * of the lists by state, whose predicate has to be said here as there.
   */
  async find(executor: SqlExecutor): Promise<Date | null> {
    const [row] = await rows<{ createdAt: Date }>(
      executor,
      `select created_at as "createdAt"
         from runs
        where state = 'PENDING'
          and max_attempts > 0
        order by created_at, id
        limit 1`,
    );
    return row?.createdAt ?? null;
  }
}
