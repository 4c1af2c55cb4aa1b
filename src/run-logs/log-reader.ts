import { Injectable } from '@nestjs/common';
import { Quota } from '../common/quotas/quota.js';
import { Settings } from '../config/settings.js';
import { Semaphore } from '@longshore/common/semaphore';
import { searchedText } from '@longshore/common/shown-text';
import { RunNotFound } from '../runs/run.errors.js';
import { EMPTY_LOG } from './add-chunk.js';
import { LinePieces, entriesOf, gapBetween, LOG_START, type LogEntry, type LogPosition } from './log-line.js';
import { decodeCursor, type LogCursor, type LogLines, type LogPage } from './log-page.js';
import { LogCompleteness } from './log-completeness.js';
import { LOG_LIMITS } from './log-limits.js';
import { unpackLines } from './log-packing.js';
import { LogRowRepository } from './log-row.repository.js';
import { AttemptNotFound, LogCursorInvalid } from './run-logs.errors.js';
import type { LogId } from './run-log.repository.js';

export interface LogRange {
  readonly runId: string;
  /** Undefined for the attempt of the cursor, or else the current one. */
  readonly attempt: number | undefined;
  /** Where to begin; undefined for the first line. */
  readonly after: LogCursor | undefined;
  /** Where to end, to read backwards from there. */
  readonly before: LogCursor | undefined;
  /** Reads backwards from the end of the log. */
  readonly fromEnd: boolean;
  /** Lines at most; the pieces of a line count as one. */
  readonly limit: number;
  /** Pieces of lines at most; at least one line. */
  readonly maxPieces: number;
  /** Bytes of text at most; at least one line. */
  readonly maxBytes: number;
  /** Text that the lines must contain, ignoring case and escape sequences. */
  readonly contains: string | undefined;
  /** Id of the API key that reads. */
  readonly callerId: string;
}

/** How far a log goes, and whether nothing will be added. */
interface Extent {
  readonly end: LogPosition;
  readonly isClosed: boolean;
}

type Picked = Pick<LogPage, 'entries' | 'start' | 'end' | 'hasMore'>;

/** Runs searches of logs one after the other, so that they leave most of the places of readers to others. */
@Injectable()
export class LogSearches {
  readonly #quota: Quota;
  readonly #semaphore = new Semaphore(1);

  constructor({ logSearches, logSearchesPerKey }: Settings) {
    this.#quota = new Quota({
      what: 'searches of logs',
      setting: 'SERVICE_LOG_SEARCHES',
      total: logSearches,
      perKey: logSearchesPerKey,
    });
  }

  /** Searches that run or wait. */
  get size(): number {
    return this.#quota.held;
  }

  /** @throws OverLimit when too many wait already */
  async run<T>(keyId: string, search: () => Promise<T>): Promise<T> {
    this.#quota.take(keyId);
    try {
      return await this.#semaphore.run(search);
    } finally {
      this.#quota.release(keyId);
    }
  }
}

/** Reads pages of logs, a bounded number at a time. Each unpacks one row after the other. */
@Injectable()
export class LogReader {
  readonly #semaphore = new Semaphore(LOG_LIMITS.maxReading);

  constructor(
    private readonly logs: LogCompleteness,
    private readonly rows: LogRowRepository,
    private readonly searches: LogSearches,
  ) {}

  /** Reads a client's cursor. @throws LogCursorInvalid if it is of another run or attempt */
  readCursor(runId: string, attempt: number | undefined, text: string | undefined): LogCursor | undefined {
    if (text === undefined) return undefined;
    const cursor = decodeCursor(runId, text);
    if (cursor === null) throw new LogCursorInvalid('Malformed cursor, or one of another run');
    if (attempt !== undefined && attempt !== cursor.attempt) {
      throw new LogCursorInvalid('The cursor belongs to the log of another attempt');
    }
    return cursor;
  }

  /**
   * @throws RunNotFound, AttemptNotFound; LogCursorInvalid for a position beyond the end of the log; OverLimit for a
   * search
   */
  read(range: LogRange): Promise<LogPage> {
    const read = (): Promise<LogPage> => this.#semaphore.run(() => this.#read(range));
    return range.contains === undefined ? read() : this.searches.run(range.callerId, read);
  }

  async #read(range: LogRange): Promise<LogPage> {
    const { runId, after, before } = range;
    const asked = range.attempt ?? after?.attempt ?? before?.attempt ?? null;
    const status = await this.logs.findStatus(runId, asked);
    if (status === null) throw new RunNotFound(runId);
    const { attempt } = status;
    if (attempt === null) throw new AttemptNotFound(runId, asked ?? status.currentAttempt);
    const { end, nextChunk } = status.log?.state ?? EMPTY_LOG;
    const from = after?.position ?? LOG_START;
    if (Math.max(from.line, before?.position.line ?? 0) > end.line)
      throw new LogCursorInvalid('The cursor is ahead of the log');
    const log = { runId, attempt };
    const extent = { end, isClosed: status.isClosed };
    const picked =
      range.fromEnd || before !== undefined
        ? await this.#readBackwards(log, extent, range)
        : await this.#readForwards(log, from, extent, range);
    const isComplete = status.isClosed && !picked.hasMore;
    const lines = isComplete ? await this.#countLines(log, end.line) : null;
    return { ...log, ...picked, isComplete, lines, nextChunk };
  }

  async #countLines(log: LogId, printed: number): Promise<LogLines> {
    const stored = printed === 0 ? 0 : await this.rows.countLines(log);
    return { printed, leftOut: Math.max(0, printed - stored) };
  }

  async #readForwards(log: LogId, from: LogPosition, extent: Extent, range: LogRange): Promise<Picked> {
    const limits = new PageLimits(range);
    const entries: LogEntry[] = [];
    const pieces = new LinePieces(false);
    let end = from;
    /** @param mayGoOn a further piece may be added: then a line that does not match yet is read again */
    const take = (line: readonly LogEntry[], mayGoOn = false): boolean => {
      const newest = line.at(-1);
      if (newest === undefined) return true;
      if (limits.areReached) return false;
      if (limits.takes(line)) entries.push(...line);
      else if (mayGoOn) return true;
      end = newest.end;
      return true;
    };
    let read = from;
    while (read.line < extent.end.line) {
      const found = await this.rows.listFrom(log, read.line);
      // The run was removed meanwhile.
      if (found.length === 0) break;
      for (const row of found) {
        for (const entry of entriesOf(row.start, await unpackLines(row.lines), read)) {
          if (!take(pieces.add(entry))) return { entries, start: from, end, hasMore: true };
          read = entry.end;
        }
      }
    }
    const hasMore = !take(pieces.end(), !extent.isClosed) || read.line < extent.end.line;
    return { entries, start: from, end, hasMore };
  }

  async #readBackwards(log: LogId, extent: Extent, range: LogRange): Promise<Picked> {
    const last = range.before?.position ?? extent.end;
    const hasMore = last.line < extent.end.line;
    const limits = new PageLimits(range);
    const newestFirst: LogEntry[] = [];
    const pieces = new LinePieces(true);
    let start = last;
    let end = last;
    /** @param lineStart in front of the line */
    const take = (line: readonly LogEntry[], lineStart: LogPosition): boolean => {
      const [first] = line;
      if (first === undefined) return true;
      // Gaps do not count backwards: the newest 10 lines are 10 lines.
      const isGap = 'gap' in first;
      if (!isGap && limits.areReached) return false;
      if (isGap || limits.takes(line)) newestFirst.push(...line.toReversed());
      // A further piece may be added to the last line: one that does not match yet is read again.
      else if (start.line === extent.end.line && !extent.isClosed) end = lineStart;
      start = lineStart;
      return true;
    };
    for (let read = last; ;) {
      const found = read.line === 0 ? [] : await this.rows.listBefore(log, read.line);
      for (const row of found) {
        const lines = await unpackLines(row.lines);
        const entries = [
          ...[...entriesOf(row.start, lines, row.start)].filter((entry) => entry.end.line <= read.line),
          ...entriesOf(read, [], row.end),
        ];
        for (let entry = entries.pop(); entry !== undefined; entry = entries.pop()) {
          if (!take(pieces.add(entry), read))
            return { entries: newestFirst.toReversed(), start, end, hasMore };
          read = entries.at(-1)?.end ?? row.start;
        }
      }
      if (found.length > 0) continue;
      if (!take(pieces.end(), read)) return { entries: newestFirst.toReversed(), start, end, hasMore };
      const gap = gapBetween(LOG_START, read);
      if (gap !== null) newestFirst.push({ gap, end: read });
      return { entries: newestFirst.toReversed(), start: LOG_START, end, hasMore };
    }
  }
}

/** What is left of the limits of a page and of its search. */
class PageLimits {
  readonly #contains: string | undefined;
  #lines: number;
  #pieces: number;
  #bytes: number;
  #scanBytes: number = LOG_LIMITS.scanBytes;

  constructor({ limit, maxPieces, maxBytes, contains }: LogRange) {
    this.#contains = contains?.toLowerCase();
    this.#lines = limit;
    this.#pieces = maxPieces;
    this.#bytes = maxBytes;
  }

  get areReached(): boolean {
    return this.#lines <= 0 || this.#pieces <= 0 || this.#bytes <= 0 || this.#scanBytes <= 0;
  }

  /** Whether the pieces of a line go on the page, or a gap. A gap always does: a search must not hide it. */
  takes(pieces: readonly LogEntry[]): boolean {
    let text = '';
    let bytes = 0;
    for (const piece of pieces) {
      if ('gap' in piece) continue;
      // Empty lines cost as well.
      this.#scanBytes -= piece.bytes + 1;
      bytes += piece.bytes;
      if (this.#contains !== undefined) text += piece.line.text;
    }
    const isGap = pieces.some((piece) => 'gap' in piece);
    if (!isGap && this.#contains !== undefined && !searchedText(text).toLowerCase().includes(this.#contains))
      return false;
    this.#lines -= 1;
    this.#pieces -= pieces.length;
    this.#bytes -= bytes;
    return true;
  }
}
