import type { EntityManager } from 'typeorm';
import { rows } from '../../database/sql/sql.js';
import type { Run } from '../machine/run.js';
import type { QueuedRun } from '../scheduling-strategy.js';
import { PENDING_COLUMNS, QUEUE_NOTES } from '../storage/run-columns.js';
import type { QueuePosition } from './lane.js';
import type { QueueRange } from './low-water-marks.js';
import { HOLDS } from './pauses.js';

/** A pending run that a claim may assign. */
export interface PendingRun extends Run {
  /** Bytes of the run in the answer of the claim. */
  readonly bytes: number;
  /** Id of the transaction that wrote it last. */
  readonly writtenBy: string;
}

/** A pending run with its notes in the queue. */
export type QueueHead = QueuedRun & PendingRun;

// Runs of the plain lane. The ranges are scanned one after the other and only as far as needed; nothing is sorted. The index is entered at a row
// comparison within one priority, or at a range of priorities.
const RANGES = `unnest($1::integer[], $2::bigint[], $3::bigint[], $4::timestamptz[], $5::uuid[])
              with ordinality as s (priority, below, above, created_at, run_id, n)`;
const IN_PLAIN_LANE = `q.lane = '00000000-0000-0000-0000-000000000000' and q.is_admitted`;
const IN_PRIORITY = `${IN_PLAIN_LANE} and q.priority = s.priority and (q.created_at, q.run_id) >= (s.created_at, s.run_id)
               order by q.created_at, q.run_id`;
const BETWEEN_PRIORITIES = `${IN_PLAIN_LANE} and s.priority is null and q.priority < s.below and q.priority > s.above
               order by q.priority desc, q.created_at, q.run_id`;
const PENDING = `select ${PENDING_COLUMNS}, ${QUEUE_NOTES}
                from queue q
                join runs r on r.id = q.run_id`;

const READ = `select head.*
         from ${RANGES}
        cross join lateral (
          select a.* from (${PENDING} where ${IN_PRIORITY} limit $6::integer) a
          union all
          select b.* from (${PENDING} where ${BETWEEN_PRIORITIES} limit $6::integer) b
        ) head
        limit $6::integer`;

const LOCK = `select head.*
         from ${RANGES}
        cross join lateral (
          select a.* from (${PENDING} where ${IN_PRIORITY} limit $6::integer for update skip locked) a
          union all
          select b.* from (${PENDING} where ${BETWEEN_PRIORITIES} limit $6::integer for update skip locked) b
        ) head
        limit $6::integer`;

const FIND = `select s.n, head.priority, head.created_at as "createdAt", head.run_id as id
         from ${RANGES}
        cross join lateral (
          (select q.priority, q.created_at, q.run_id from queue q where ${IN_PRIORITY} limit 1)
          union all
          (select q.priority, q.created_at, q.run_id from queue q where ${BETWEEN_PRIORITIES} limit 1)
        ) head
        limit $6::integer`;

/** Runs that are checked for pauses at once, at most. */
const MAX_CHECKED = 40_000;

// Of the first priority in a range, the first run that no pause holds, or the last that was checked. The check is no join: the planner knows
// nothing of the sizes.
const firstOpen = (range: string): string => `(
            with checked as materialized (
              select q.priority, q.created_at, q.run_id from queue q where ${range} limit $6::integer
            ),
            first as materialized (select * from checked where priority = (select max(priority) from checked))
            select one.*
              from (
                (select *
                   from first f
                  where coalesce((select false from runs r join pauses p on ${HOLDS} where r.id = f.run_id limit 1), true)
                  limit 1)
                union all
                (select * from first order by created_at desc, run_id desc limit 1)
              ) one
             limit 1
          )`;
const FIND_OPEN = `select s.n, head.priority, head.created_at as "createdAt", head.run_id as id
         from ${RANGES}
        cross join lateral (
          ${firstOpen(IN_PRIORITY)}
          union all
          ${firstOpen(BETWEEN_PRIORITIES)}
        ) head`;

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
  return firstOfEach(ranges, await rows(manager, FIND, [...rangeParams(ranges), limit]));
}

/** A position in each range before which pauses hold all runs, or null. They need not be marked. */
export async function findOpenHeads(
  manager: EntityManager,
  ranges: readonly QueueRange[],
): Promise<(QueuePosition | null)[]> {
  const limit = Math.ceil(MAX_CHECKED / ranges.length);
  return firstOfEach(ranges, await rows(manager, FIND_OPEN, [...rangeParams(ranges), limit]));
}

function firstOfEach(
  ranges: readonly QueueRange[],
  found: readonly (QueuePosition & { readonly n: string })[],
): (QueuePosition | null)[] {
  const heads = new Map(found.map(({ n, ...position }) => [Number(n), position]));
  return ranges.map((_, i) => heads.get(i + 1) ?? null);
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
