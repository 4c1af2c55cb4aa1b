import { Inject, Injectable, Optional, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { CommitNotices, type NoticeSource } from '../../database/notices/commit-notices.js';
import { rows } from '../../database/sql/sql.js';
import type { QueuedRun } from '../scheduling-strategy.js';
import type { Run } from '../machine/run.js';
import { PENDING_COLUMNS, QUEUE, QUEUE_NOTES, RUNS } from '../storage/run-columns.js';
import { PLAIN_LANE, readClaimablePart, type QueuePosition } from './lane.js';

/**
 * A part of the queue. With `from`: the runs of one priority (`below` and `above` are its neighbours) from that position
 * on. Without: the runs of all priorities between the two bounds, both exclusive.
 */
export interface QueueRange {
  readonly below: number;
  readonly above: number;
  readonly from: QueuePosition | null;
}

/** A pending run that a claim may assign. */
export interface PendingRun extends Run {
  /** Bytes of the run in the answer of the claim. */
  readonly bytes: number;
  /** Id of the transaction that wrote it last. */
  readonly writtenBy: string;
}

/** A pending run with its notes in the queue. */
export type QueueHead = QueuedRun & PendingRun;

/** The marks advance after so many claimed runs, which bounds the deleted rows that a scan passes. */
const ADVANCE_AFTER_RUNS = 200;
/** After fewer claimed runs they advance once this time has passed, in milliseconds. */
const ADVANCE_AFTER_MS = 1_000;
/** Interval of scans that ignore the marks, in milliseconds; they find runs whose notice was lost. */
const FULL_SCAN_INTERVAL_MS = 10_000;
/** Share of the time that full scans may take. */
const FULL_SCAN_SHARE = 0.01;
/** Priorities with a mark, at most; the least recently used is dropped. */
const MAX_PRIORITIES = 8;

/** Bounds outside the range of a priority, a 32-bit integer. */
const BELOW_ALL = 2 ** 31;
const ABOVE_ALL = -(2 ** 31) - 1;

export const WHOLE_QUEUE: readonly QueueRange[] = [{ below: BELOW_ALL, above: ABOVE_ALL, from: null }];

/**
 * The low-water mark of each priority in the plain lane: the lane before it is known to be empty. A claim that starts there skips deleted
 * rows, which vacuum cannot remove while a long transaction is open.
 *
 * The rule: no run is in the queue before the mark of its priority, except one whose notice has not arrived yet.
 * A mark advances only to what a scan saw as the first run, or past runs that this process claimed and a later scan does
 * not see. It moves back for a run that is put before it, also for one that is announced during a scan.
 */
@Injectable()
export class LowWaterMarks implements OnModuleInit, OnModuleDestroy {
  readonly #marks = new Map<number, QueuePosition>();
  /** The last run of each priority that a claim of this process has found. */
  readonly #lastClaimed = new Map<number, QueuePosition>();
  /** Positions that were put during each unfinished scan. */
  readonly #scans = new Set<QueuePosition[]>();
  #unsubscribe: (() => void) | undefined;
  #claimedRuns = 0;
  #advancedAt = 0;
  #fullScanAt = 0;
  #nextFullScanAt = 0;

  /** @param notices without them the marks are not used. @param clock monotonic ms */
  constructor(
    @Inject(CommitNotices) private readonly notices?: NoticeSource,
    @Optional() private readonly clock: () => number = () => performance.now(),
  ) {}

  onModuleInit(): void {
    this.#unsubscribe = this.notices?.subscribe((notice) => {
      const positions = notice === null ? null : readClaimablePart(notice.queue ?? {}).from;
      if (positions === null) this.clear();
      else for (const position of positions) this.put(position);
    });
  }

  onModuleDestroy(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }

  /** Whether no other process takes runs, so that claims need not lock what they read. */
  get isAlone(): boolean {
    return this.#unsubscribe !== undefined && this.notices?.isAlone === true;
  }

  /** Whether the notices of other processes arrive, so that the marks may be used. */
  get isCurrent(): boolean {
    const isCurrent = this.#unsubscribe !== undefined && this.notices?.isListening === true;
    if (!isCurrent && this.#marks.size > 0) this.clear();
    return isCurrent;
  }

  /** The parts of the queue that may hold runs, in queue order. */
  get ranges(): QueueRange[] {
    const ranges: QueueRange[] = [];
    let below = BELOW_ALL;
    for (const [priority, from] of [...this.#marks].toSorted(([a], [b]) => b - a)) {
      if (below - priority > 1) ranges.push({ below, above: priority, from: null });
      ranges.push({ below: priority + 1, above: priority - 1, from });
      below = priority;
    }
    if (below - ABOVE_ALL > 1) ranges.push({ below, above: ABOVE_ALL, from: null });
    return ranges;
  }

  /** A run is being put into the queue by this process, or was by another one. */
  put(position: QueuePosition): void {
    for (const positions of this.#scans) positions.push(position);
    const mark = this.#marks.get(position.priority);
    if (mark && isBefore(position, mark)) this.#marks.set(position.priority, position);
  }

  get isAdvanceDue(): boolean {
    const isLate = this.#claimedRuns > 0 && this.clock() - this.#advancedAt >= ADVANCE_AFTER_MS;
    return isLate || this.#claimedRuns >= ADVANCE_AFTER_RUNS;
  }

  get isFullScanDue(): boolean {
    return this.mayScanFully && this.clock() - this.#fullScanAt >= FULL_SCAN_INTERVAL_MS;
  }

  get mayScanFully(): boolean {
    return this.clock() >= this.#nextFullScanAt;
  }

  /** Runs a scan that ignores the marks; a run that it finds before a mark moves that back. */
  async scanFully<P extends QueuePosition>(scan: () => Promise<P[]>): Promise<P[]> {
    const startedAt = this.clock();
    const found = await scan();
    this.#fullScanAt = this.clock();
    this.#nextFullScanAt = this.#fullScanAt + (this.#fullScanAt - startedAt) / FULL_SCAN_SHARE;
    for (const position of found) this.put(position);
    return found;
  }

  /** A claim found these runs. It takes them if its transaction commits, or leaves some in the queue, where scans see them. */
  claim(positions: readonly QueuePosition[]): void {
    this.#claimedRuns += positions.length;
    for (const position of positions) {
      const last = this.#lastClaimed.get(position.priority);
      if (!last || isBefore(last, position)) this.#lastClaimed.set(position.priority, position);
    }
  }

  /** Drops all marks and ignores the results of unfinished scans. */
  clear(): void {
    this.#scans.clear();
    this.#marks.clear();
    this.#lastClaimed.clear();
  }

  /**
   * Advances the marks. @param scan finds the first run of each range, locked or not, or null, by a snapshot that shows
   * nothing of what an unfinished transaction of this process has removed
   */
  async advance(
    scan: (ranges: readonly QueueRange[]) => Promise<readonly (QueuePosition | null)[]>,
  ): Promise<void> {
    const putMeanwhile: QueuePosition[] = [];
    this.#claimedRuns = 0;
    this.#advancedAt = this.clock();
    // What was claimed before the scan is gone for good if the scan does not see it.
    const lastClaimed = new Map(this.#lastClaimed);
    const { ranges } = this;
    this.#scans.add(putMeanwhile);
    try {
      const heads = await scan(ranges);
      if (!this.#scans.has(putMeanwhile)) return;
      for (const [i, { from }] of ranges.entries()) {
        const mark = heads[i] ?? (from && lastClaimed.get(from.priority));
        if (mark && !(from && isBefore(mark, from))) this.#set(mark);
      }
    } finally {
      this.#scans.delete(putMeanwhile);
    }
    for (const position of putMeanwhile) this.put(position);
  }

  #set(mark: QueuePosition): void {
    this.#marks.delete(mark.priority);
    this.#marks.set(mark.priority, mark);
    if (this.#marks.size <= MAX_PRIORITIES) return;
    const [oldest] = this.#marks.keys();
    if (oldest !== undefined) this.#marks.delete(oldest);
  }
}

/** Whether the first of two runs of one priority comes before the other. */
function isBefore(a: QueuePosition, b: QueuePosition): boolean {
  const [at, bt] = [a.createdAt.getTime(), b.createdAt.getTime()];
  return at === bt ? a.id < b.id : at < bt;
}

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
