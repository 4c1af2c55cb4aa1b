import { Inject, Injectable, Optional, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { CommitNotices, type NoticeSource } from '../../database/notices/commit-notices.js';
import { readClaimablePart, type QueuePosition } from './lane.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/**
 * A part of the queue. With `from`: the runs of one priority (`below` and `above` are its neighbours) from that position
 * on. Without: the runs of all priorities between the two bounds, both exclusive.
 */
export interface QueueRange {
  readonly below: number;
  readonly above: number;
  readonly from: QueuePosition | null;
}

/** The marks advance after so many claimed runs, which bounds the deleted rows that a scan passes. */
const ADVANCE_AFTER_RUNS = 200;
/** After fewer claimed runs they advance once this time has passed, in milliseconds. */
const ADVANCE_AFTER_MS = 1_000;
/** Interval of scans that ignore the marks, in milliseconds. */
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
 * The low-water mark of each priority in the plain lane: a claim that starts there skips deleted rows, which vacuum cannot
 * remove while a long transaction is open.
 *
 * It remembers positions before which the lane is empty. A mark advances to what a scan saw as the first run, or past runs that this
 * process claimed and a later scan does not see; not in a transaction that has removed runs, because a rollback brings them
 * back. It moves back for a run that is put before it, also during a scan: at once for one of this process, with the commit's
 * notice for one of another.
 * A mark is wrong until such a notice arrives, and from then on if it is lost. Nothing is lost: a claim that finds too few runs scans
 * the whole lane, as does one claim in ten seconds, unless that takes more than a hundredth of the time; while notices do not
 * arrive, or after some were lost, there are no marks.
 * Empty, it costs each scan the deleted rows before the first run.
 * Proven by test/integration/queue/low-water-marks.spec.ts.
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
    @Optional() private readonly clock: () => number = monotonicMs,
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

  /** Whether the marks may be used. */
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

  /** Runs a scan that ignores the marks. */
  async scanFully<P extends QueuePosition>(scan: () => Promise<P[]>): Promise<P[]> {
    const startedAt = this.clock();
    const found = await scan();
    this.#fullScanAt = this.clock();
    this.#nextFullScanAt = this.#fullScanAt + (this.#fullScanAt - startedAt) / FULL_SCAN_SHARE;
    for (const position of found) this.put(position);
    return found;
  }

  /** A claim found these runs. */
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

  /** Advances the marks. @param scan finds the first run of each range, locked or not, or null */
  async advance(
    scan: (ranges: readonly QueueRange[]) => Promise<readonly (QueuePosition | null)[]>,
  ): Promise<void> {
    const putMeanwhile: QueuePosition[] = [];
    this.#claimedRuns = 0;
    this.#advancedAt = this.clock();
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
