import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import type { QueuedRun } from '../scheduling-strategy.js';
import { PENDING_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import { PLAIN_LANE, type QueuePosition } from './lane.js';
import type { QueueRange } from './low-water-marks.js';

/** A pending run that a claim may assign. */
export interface PendingRun extends Run {
  /** Bytes of the run in the answer of the claim. */
  readonly bytes: number;
  /** Id of the transaction that wrote it last. */
  readonly writtenBy: string;
}

/** A pending run with its notes in the queue. */
export type QueueHead = QueuedRun & PendingRun;

/** How a claim beside those of other processes reads runs. */
export const SKIP_LOCKED = 'for update skip locked';

// Runs of the plain lane. The ranges are scanned one after the other and only as far as needed; nothing is sorted. The index is entered at a row
// comparison within one priority, or at a range of priorities.
const RANGES = `unnest($1::integer[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::uuid[])
              with ordinality as s (priority, below, above, created_at, run_id, n)`;
const IN_PLAIN_LANE = `q.lane = '${PLAIN_LANE}' and q.is_admitted`;
const ONE_PRIORITY = 'q.priority = s.priority and (q.created_at, q.run_id) >= (s.created_at, s.run_id)';
const BETWEEN_PRIORITIES = 's.priority is null and q.priority < s.below and q.priority > s.above';

const READ = readOfHeads('');
const LOCK = readOfHeads(SKIP_LOCKED);

const FIND = `select s.n, head.priority, head.created_at as "createdAt", head.run_id as id
         from ${RANGES}
        cross join lateral (
          (${first(ONE_PRIORITY, 'q.created_at, q.run_id')})
          union all
          (${first(BETWEEN_PRIORITIES, 'q.priority desc, q.created_at, q.run_id')})
        ) head
        limit $6::integer`;

/**
 * Reads up to `limit` runs of the ranges.
 * @param isLocked whether it locks them and their rows in the queue, and skips those that others have locked
 */
export function readHeads(
  manager: EntityManager,
  ranges: readonly QueueRange[],
  limit: number,
  isLocked: boolean,
): Promise<QueueHead[]> {
  return rows(manager, isLocked ? LOCK : READ, [...rangeParams(ranges), limit]);
}

/** The first run of each range, locked or not, or null; null also beyond the first `limit` runs found. */
export async function findHeads(
  manager: EntityManager,
  ranges: readonly QueueRange[],
  limit = ranges.length,
): Promise<(QueuePosition | null)[]> {
  const params = [...rangeParams(ranges), limit];
  const found = await rows<QueuePosition & { readonly n: string }>(manager, FIND, params);
  const heads = new Map(found.map(({ n, ...position }) => [Number(n), position]));
  return ranges.map((_, i) => heads.get(i + 1) ?? null);
}

function readOfHeads(locking: string): string {
  const heads = (condition: string, order: string): string =>
    `select ${PENDING_COLUMNS}, ${QUEUE_NOTES}
                from ${QUEUE.name} q
                join ${RUNS.name} r on r.id = q.run_id
               where ${IN_PLAIN_LANE}
                 and ${condition}
               order by ${order}
               limit $6::integer
                 ${locking}`;
  return `select head.*
         from ${RANGES}
        cross join lateral (
          select a.* from (${heads(ONE_PRIORITY, 'q.created_at, q.run_id')}) a
          union all
          select b.* from (${heads(BETWEEN_PRIORITIES, 'q.priority desc, q.created_at, q.run_id')}) b
        ) head
        limit $6::integer`;
}

function first(condition: string, order: string): string {
  return `select q.priority, q.created_at, q.run_id
                from ${QUEUE.name} q
               where ${IN_PLAIN_LANE}
                 and ${condition}
               order by ${order}
               limit 1`;
}

function rangeParams(ranges: readonly QueueRange[]): unknown[] {
  return [
    ranges.map(({ from }) => from?.priority ?? null),
    ranges.map(({ below }) => below),
    ranges.map(({ above }) => above),
    ranges.map(({ from }) => from?.createdAt.toISOString() ?? null),
    ranges.map(({ from }) => from?.id ?? null),
  ];
}
