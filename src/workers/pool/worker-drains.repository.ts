import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { WorkerDrainEntity, WorkerPoolEntity } from '../../database/entities/worker.entity.js';
import { EntityTable } from '../../database/entity-table.js';
import { execute, rows } from '../../database/sql.js';

const DRAINS = new EntityTable(WorkerDrainEntity);
const POOL = new EntityTable(WorkerPoolEntity);
const SEEN = DRAINS.unnest(['workerId', 'seenAt']);

/**
 * The workers that an admin keeps from claiming. What changes many rows is SQL: the query builder has no `update` from
 * other rows and no `skip locked` in a subquery.
 */
@Injectable()
export class WorkerDrainsRepository {
  constructor(@InjectRepository(WorkerDrainEntity) private readonly drains: Repository<WorkerDrainEntity>) {}

  /** Ids of the draining workers. */
  async list(): Promise<string[]> {
    const found = await this.drains.find({ select: { workerId: true } });
    return found.map(({ workerId }) => workerId);
  }

  /** Drains a worker; nothing changes for one that drains already. @param at when the drain begins */
  async insert(workerId: string, at: Date): Promise<void> {
    const query = this.drains.createQueryBuilder().insert().orIgnore();
    await query.values({ workerId, drainedAt: at, seenAt: at }).execute();
  }

  /** Ends the drain of a worker, if there is one. */
  async remove(workerId: string): Promise<void> {
    await this.drains.delete({ workerId });
  }

  /** Notes when draining workers were seen last. */
  async markSeen(seen: readonly { readonly id: string; readonly at: Date }[]): Promise<void> {
    await execute(
      this.drains.manager,
      `update ${DRAINS.name} d
          set seen_at = v.seen_at
         from ${SEEN.sql}
        where d.worker_id = v.worker_id
          and d.seen_at < v.seen_at`,
      SEEN.params(seen.map(({ id, at }) => ({ workerId: id, seenAt: at }))),
    );
  }

  /** Notes when draining workers were seen last by the shared pool. */
  async markSeenByPool(): Promise<void> {
    await execute(
      this.drains.manager,
      `update ${DRAINS.name} d
          set seen_at = w.last_heartbeat_at
         from ${POOL.name} w
        where d.worker_id = w.worker_id
          and d.seen_at < w.last_heartbeat_at`,
    );
  }

  /** Ends drains of workers that were not seen later than the time; answers whose. @param limit drains at most */
  async removeUnseen(before: Date, limit: number): Promise<string[]> {
    const removed = await rows<{ id: string }>(
      this.drains.manager,
      `delete from ${DRAINS.name}
        where worker_id in (
                select worker_id
                  from ${DRAINS.name}
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
