import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Semaphore } from '../database/semaphore.js';
import { RunNotFound } from '../runs/run.errors.js';
import { decodeCursor } from './log-cursor.js';
import { LOG_LIMITS, type LogLimits } from './log-limits.js';
import { unpackLines } from './log-packing.js';
import type { LogStretch } from './log-page.js';
import { EMPTY_LOG } from './log-plan.js';
import { LOG_START, type LogPoint } from './log-point.js';
import { filterOf, type LineFilter } from './log-search.js';
import { walkRow, type LogStep } from './log-walk.js';
import { AttemptNotFound, LogCursorInvalid } from './run-logs.errors.js';
import { LogRowRepository } from './log-row.repository.js';
import { RunLogRepository, type LogId } from './run-log.repository.js';

/** Text fetched by one statement, in bytes. */
const FETCHED_BYTES = 1024 * 1024;

/** What of a log is wanted. */
export interface LogWish {
  readonly runId: string;
  /** Undefined for that of the place, or else the current one. */
  readonly attempt: number | undefined;
  /** Where to go on; undefined for the beginning. */
  readonly after: LogPlaceRead | undefined;
  /** Where to end, for the lines in front of a place instead. */
  readonly before: LogPlaceRead | undefined;
  /** Lines and gaps at most. */
  readonly limit: number;
  /** Bytes of text at most; one line at least. */
  readonly maxBytes: number;
  readonly contains: string | undefined;
  /** The newest instead of those behind the place. */
  readonly fromEnd: boolean;
}

/** A place that a cursor stands for. */
export interface LogPlaceRead {
  readonly attempt: number;
  readonly point: LogPoint;
}

/** Lines on their way into a page. */
interface Picked {
  readonly steps: readonly LogStep[];
  /** In front of what was gone through. */
  readonly start: LogPoint;
  readonly end: LogPoint;
}

/** Reads stretches of logs: a few at a time, each unpacking one row after the other up to a limit. */
@Injectable()
export class LogReader {
  readonly #turns: Semaphore;

  constructor(
    private readonly dataSource: DataSource,
    private readonly logs: RunLogRepository,
    private readonly rows: LogRowRepository,
    @Inject(LOG_LIMITS) private readonly limits: LogLimits,
  ) {
    this.#turns = new Semaphore(limits.maxReading);
  }

  /**
   * The place that a client's cursor stands for.
   * @throws LogCursorInvalid when no log of the run made it, or that of another attempt
   */
  placeOf(runId: string, attempt: number | undefined, cursor: string): LogPlaceRead {
    const place = decodeCursor(runId, cursor);
    if (place === null) throw new LogCursorInvalid('Malformed cursor, or one of another run');
    if (attempt !== undefined && attempt !== place.attempt) {
      throw new LogCursorInvalid('The cursor belongs to the log of another attempt');
    }
    return place;
  }

  /**
   * Reads what is there now.
   * @throws RunNotFound, AttemptNotFound; LogCursorInvalid for a place that the log has not come to
   */
  read(wish: LogWish): Promise<LogStretch> {
    return this.#turns.take(() => this.#read(wish));
  }

  async #read(wish: LogWish): Promise<LogStretch> {
    const { runId, after, before } = wish;
    const asked = wish.attempt ?? after?.attempt ?? before?.attempt ?? null;
    const { silenceMs } = this.limits;
    const standing = await this.logs.findStanding(this.dataSource, runId, asked, silenceMs);
    if (standing === null) throw new RunNotFound(runId);
    const { attempt } = standing;
    if (attempt === null) throw new AttemptNotFound(runId, asked ?? standing.currentAttempt);
    const { end: last, nextChunk } = standing.log?.state ?? EMPTY_LOG;
    const from = after?.point ?? LOG_START;
    if (Math.max(from.line, before?.point.line ?? 0) > last.line)
      throw new LogCursorInvalid('The cursor is ahead of the log');
    const log = { runId, attempt };
    const picked =
      wish.fromEnd || before !== undefined
        ? await this.#pickBefore(log, before?.point, last, wish)
        : await this.#pickBehind(log, from, last, wish);
    const hasMore = picked.end.line < last.line;
    return { ...log, ...picked, hasMore, isComplete: standing.isClosed && !hasMore, nextChunk };
  }

  /** From a place on. What was dropped meanwhile is a gap. */
  async #pickBehind(log: LogId, from: LogPoint, last: LogPoint, wish: LogWish): Promise<Picked> {
    const page = new PageRoom(wish, this.limits.scanBytes);
    const steps: LogStep[] = [];
    let end = from;
    while (end.line < last.line) {
      const found = await this.rows.listFrom(this.dataSource, log, end.line, FETCHED_BYTES);
      // The run was removed under the reader's hands.
      if (found.length === 0) break;
      for (const row of found) {
        for (const step of walkRow(row.start, await unpackLines(row.lines), end)) {
          if (page.isFull) return { steps, start: from, end };
          if (page.takes(step)) steps.push(step);
          end = step.behind;
        }
      }
    }
    return { steps, start: from, end };
  }

  /** Backwards from a place, or from the end, row by row, until there are enough. */
  async #pickBefore(log: LogId, from: LogPoint | undefined, last: LogPoint, wish: LogWish): Promise<Picked> {
    const page = new PageRoom(wish, this.limits.scanBytes);
    const newestFirst: LogStep[] = [];
    let start = from;
    let end = from ?? last;
    for (;;) {
      const before = start?.line ?? Number.MAX_SAFE_INTEGER;
      const found =
        before === 0 ? [] : await this.rows.listBefore(this.dataSource, log, before, FETCHED_BYTES);
      for (const row of found) {
        if (start === undefined) end = start = row.end;
        const past = Math.min(start.line, row.end.line);
        const steps = [
          ...[...walkRow(row.start, await unpackLines(row.lines), row.start)].filter(
            ({ behind }) => behind.line <= past,
          ),
          ...walkRow(start, [], row.end),
        ];
        for (const [n, step] of [...steps.entries()].toReversed()) {
          // Backwards a gap takes no room: who asks for the newest lines gets so many lines.
          const isGap = 'gap' in step;
          if (!isGap && page.isFull) return { steps: newestFirst.toReversed(), start, end };
          if (isGap || page.takes(step)) newestFirst.push(step);
          start = steps[n - 1]?.behind ?? row.start;
        }
      }
      if (found.length > 0) continue;
      if (start !== undefined) newestFirst.push(...walkRow(start, [], LOG_START));
      return { steps: newestFirst.toReversed(), start: LOG_START, end };
    }
  }
}

/** What still fits on a page. */
class PageRoom {
  readonly #wants: LineFilter;
  #left: number;
  #bytesLeft: number;

  constructor(
    { limit, maxBytes, contains }: LogWish,
    private scanLeft: number,
  ) {
    this.#wants = filterOf(contains);
    this.#left = limit;
    this.#bytesLeft = maxBytes;
  }

  get isFull(): boolean {
    return this.#left <= 0 || this.#bytesLeft <= 0 || this.scanLeft <= 0;
  }

  /** Whether the step goes on the page; its costs are taken off. A gap always does: a search must not hide it. */
  takes(step: LogStep): boolean {
    if ('gap' in step) {
      this.#left -= 1;
      return true;
    }
    // Empty lines cost as well.
    this.scanLeft -= step.bytes + 1;
    if (!this.#wants(step.line.text)) return false;
    this.#left -= 1;
    this.#bytesLeft -= step.bytes;
    return true;
  }
}
