import { Injectable } from '@nestjs/common';
import { execute, rows, unnestRows, type SqlExecutor } from '../../database/sql.js';

/** SQL of the table `worker_drains`: the workers that an admin keeps from claiming. */
@Injectable()
export class WorkerDrainsRepository {
  /** Ids of the draining workers. */
  async list(executor: SqlExecutor): Promise<string[]> {
    const found = await rows<{ id: string }>(
      executor,
      `select worker_id as id
         from worker_drains`,
    );
    return found.map(({ id }) => id);
  }

  /** Drains a worker; nothing changes for one that drains already. @param at when it is said, and seen last */
  async insert(executor: SqlExecutor, workerId: string, at: Date): Promise<void> {
    await execute(
      executor,
      `insert into worker_drains (worker_id, drained_at, seen_at)
       values ($1::text, $2::timestamptz, $2::timestamptz)
           on conflict (worker_id) do nothing`,
      [workerId, at.toISOString()],
    );
  }

  /** Ends the drain of a worker, if there is one. */
  async remove(executor: SqlExecutor, workerId: string): Promise<void> {
    await execute(
      executor,
      `delete from worker_drains
        where worker_id = $1::text`,
      [workerId],
    );
  }

  /** Notes when draining workers were seen last. */
  async markSeen(
    executor: SqlExecutor,
    seen: readonly { readonly id: string; readonly at: Date }[],
  ): Promise<void> {
    const source = unnestRows(
      { worker_id: 'text', seen_at: 'timestamptz' },
      seen.map(({ id, at }) => ({ worker_id: id, seen_at: at })),
    );
    await execute(
      executor,
      `update worker_drains d
          set seen_at = v.seen_at
         from ${source.sql}
        where d.worker_id = v.worker_id
          and d.seen_at < v.seen_at`,
      source.params,
    );
  }

  /** Notes when draining workers were seen last by the shared pool. */
  async markSeenByPool(executor: SqlExecutor): Promise<void> {
    await execute(
      executor,
      `update worker_drains d
          set seen_at = w.last_heartbeat_at
         from worker_pool w
        where d.worker_id = w.worker_id
          and d.seen_at < w.last_heartbeat_at`,
    );
  }

  /** Ends drains of workers that were not seen later than the time; answers whose. @param limit drains at most */
  async removeUnseen(executor: SqlExecutor, before: Date, limit: number): Promise<string[]> {
    const removed = await rows<{ id: string }>(
      executor,
      `delete from worker_drains
        where worker_id in (
                select worker_id
                  from worker_drains
                 where seen_at <= $1::timestamptz
                 order by worker_id
                 limit $2::integer
                   for update skip locked
              )
    returning worker_id as id`,
      [before.toISOString(), limit],
    );
    return removed.map(({ id }) => id);
  }
}
