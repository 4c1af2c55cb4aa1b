import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql.js';
import type { QueueSpot, QueueStretch, StretchHead } from './low-water-marks.js';
import { MACHINE_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import type { QueuedRun } from '../scheduling-strategy.js';

const STRETCHES = `unnest($1::integer[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::uuid[])
              with ordinality as s (priority, below, above, created_at, run_id, n)`;

const OF_ONE_PRIORITY = 'q.priority = s.priority and (q.created_at, q.run_id) >= (s.created_at, s.run_id)';

const BETWEEN_PRIORITIES = 's.priority is null and q.priority < s.below and q.priority > s.above';

/**
 * SQL that reads the beginnings of stretches of `run_queue`. They are looked through one after the other, and only as far
 * as needed: nothing sorts them. Each is entered in the index at a row comparison within one priority, or at a range of
 * priorities.
 */
export class QueueHeadRepository {
  /** Locks runs of the stretches and their places in the queue, `limit` at most; what others hold is passed over. */
  lock(manager: EntityManager, stretches: readonly QueueStretch[], limit: number): Promise<QueuedRun[]> {
    return rows<QueuedRun>(
      manager,
      `select head.*
         from ${STRETCHES}
        cross join lateral (
          select a.* from (${locked(OF_ONE_PRIORITY, 'q.created_at, q.run_id')}) a
          union all
          select b.* from (${locked(BETWEEN_PRIORITIES, 'q.priority desc, q.created_at, q.run_id')}) b
        ) head
        limit $6::integer`,
      [...stretchParams(stretches), limit],
    );
  }

  /** The first run of every stretch, in other hands or not. */
  async find(manager: EntityManager, stretches: readonly QueueStretch[]): Promise<StretchHead[]> {
    const heads = await this.list(manager, stretches, stretches.length);
    const firsts = new Map(heads.map(({ n, ...spot }) => [Number(n), spot]));
    return stretches.map((stretch, i) => ({ stretch, first: firsts.get(i + 1) ?? null }));
  }

  /** The first run of each stretch that has any, in other hands or not, by the stretch's number from 1 on; `limit` of them. */
  list(
    manager: EntityManager,
    stretches: readonly QueueStretch[],
    limit: number,
  ): Promise<(QueueSpot & { readonly n: string })[]> {
    return rows(
      manager,
      `select s.n, head.priority, head.created_at as "createdAt", head.run_id as id
         from ${STRETCHES}
        cross join lateral (
          (${first(OF_ONE_PRIORITY, 'q.created_at, q.run_id')})
          union all
          (${first(BETWEEN_PRIORITIES, 'q.priority desc, q.created_at, q.run_id')})
        ) head
        limit $6::integer`,
      [...stretchParams(stretches), limit],
    );
  }
}

function locked(condition: string, order: string): string {
  return `select ${MACHINE_COLUMNS}, ${QUEUE_NOTES}
                from ${QUEUE.name} q
                join ${RUNS.name} r on r.id = q.run_id
               where ${condition}
               order by ${order}
               limit $6::integer
                 for update skip locked`;
}

function first(condition: string, order: string): string {
  return `select q.priority, q.created_at, q.run_id
                from ${QUEUE.name} q
               where ${condition}
               order by ${order}
               limit 1`;
}

function stretchParams(stretches: readonly QueueStretch[]): unknown[] {
  return [
    stretches.map(({ from }) => from?.priority ?? null),
    stretches.map(({ below }) => below),
    stretches.map(({ above }) => above),
    stretches.map(({ from }) => from?.createdAt.toISOString() ?? null),
    stretches.map(({ from }) => from?.id ?? null),
  ];
}
