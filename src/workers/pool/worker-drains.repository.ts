import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import { Repository } from 'typeorm';
import { recordChange, type AuditedChange, type Author } from '../../auth/audit-log.js';
import { WorkerDrainEntity, WorkerPoolEntity } from '../../database/entities/worker.entity.js';
import { EntityTable } from '../../database/sql/entity-table.js';
import { execute, rows } from '../../database/sql/sql.js';

const DRAINS = new EntityTable(WorkerDrainEntity);
const POOL = new EntityTable(WorkerPoolEntity);
const SEEN = DRAINS.unnest(['workerId', 'seenAt']);

/** Drains of workers. SQL where the query builder has no `update ... from` and no `skip locked` in a subquery. */
@Injectable()
export class WorkerDrainsRepository {
  constructor(@InjectRepository(WorkerDrainEntity) private readonly drains: Repository<WorkerDrainEntity>) {}

  async list(): Promise<string[]> {
    const found = await this.drains.find({ select: { workerId: true } });
    return found.map(({ workerId }) => workerId);
  }

  /** Starts a drain, and records it in the audit log. Does nothing for a worker that drains. */
  async insert(workerId: string, at: Date, by: Author): Promise<void> {
    await this.drains.manager.transaction(async (manager) => {
      const inserted = await execute(
        manager,
        `insert into ${DRAINS.name} (worker_id, drained_at, seen_at)
         values ($1::text, $2::timestamptz, $2::timestamptz)
             on conflict do nothing`,
        [workerId, at.toISOString()],
      );
      if (inserted > 0) await recordChange(manager, by, changeOf(workerId, true));
    });
  }

  /** Ends a drain, and records it in the audit log. Does nothing for a worker that does not drain. */
  async remove(workerId: string, by: Author): Promise<void> {
    await this.drains.manager.transaction(async (manager) => {
      const { affected } = await manager.delete(WorkerDrainEntity, { workerId });
      if (affected) await recordChange(manager, by, changeOf(workerId, false));
    });
  }

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

  /** Removes drains of workers without a heartbeat since the time. @returns their ids */
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

function changeOf(subject: string, draining: boolean): AuditedChange {
  return {
    action: draining ? 'worker.drain' : 'worker.resume',
    subject,
    before: { draining: !draining },
    after: { draining },
  };
}
