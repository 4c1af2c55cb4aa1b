import { Injectable } from '@nestjs/common';
import type { QueueEntryEntity } from '../../database/entities/queue.entity.js';
import { rows, type SqlExecutor } from '../../database/sql.js';
import { MACHINE_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import type { QueuedRun } from '../scheduling-strategy.js';

const ROW = QUEUE.except('cpu', 'ramMb', 'vramMb');

/** A run's row in the queue, without its shape. */
export type QueueRow = Readonly<Pick<QueueEntryEntity, (typeof ROW)[number]>>;

/** SQL that tells where runs stand in `run_queue`, without locking anything. */
@Injectable()
export class QueueStandingRepository {
  /** The run's row, or null when it is not in the queue. */
  async find(executor: SqlExecutor, runId: string): Promise<QueueRow | null> {
    const [row] = await rows<QueueRow>(
      executor,
      `select ${QUEUE.select('q', ROW)}
         from ${QUEUE.name} q
        where q.run_id = $1::uuid`,
      [runId],
    );
    return row ?? null;
  }

  /** How many runs come before this one in the queue, or `most` when there are more. */
  async countBefore(
    executor: SqlExecutor,
    { runId, priority, createdAt }: QueueRow,
    most: number,
  ): Promise<number> {
    const [row] = await rows<{ count: number }>(
      executor,
      `select least(count(*), $4::integer)::integer as count
         from (
           (select 1
              from ${QUEUE.name}
             where priority > $1::integer
             limit $4::integer)
            union all
           (select 1
              from ${QUEUE.name}
             where priority = $1::integer
               and (created_at, run_id) < ($2::timestamptz, $3::uuid)
             limit $4::integer)
         ) before`,
      [priority, createdAt.toISOString(), runId, most],
    );
    return row?.count ?? 0;
  }

  /** The workers that are kept free for runs. */
  async listReservers(executor: SqlExecutor): Promise<string[]> {
    const found = await rows<{ workerId: string }>(
      executor,
      `select distinct reserved_for as "workerId"
         from ${QUEUE.name}
        where reserved_for is not null`,
    );
    return found.map(({ workerId }) => workerId);
  }

  /** The runs that any of the workers is kept free for, in the order of the queue. */
  listReserved(executor: SqlExecutor, workerIds: readonly string[]): Promise<QueuedRun[]> {
    return rows<QueuedRun>(
      executor,
      `select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}
         from ${QUEUE.name} q
         join ${RUNS.name} r on r.id = q.run_id
        where q.reserved_for is not null
          and q.reserved_for = any($1::text[])
        order by q.priority desc, q.created_at, q.run_id`,
      [workerIds],
    );
  }
}
