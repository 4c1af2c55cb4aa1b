export const LOG_STREAMS = ['stdout', 'stderr'] as const;
export type LogStream = (typeof LOG_STREAMS)[number];

export const MAX_LINES_OF_A_CHUNK = 5000;
/** Longest text of a line, in characters (code points). */
export const MAX_TEXT_LENGTH = 16_384;
export const LAST_CHUNK = 2 ** 31 - 2;
export const LAST_LINE = 2 ** 40;
/** Highest number of bytes of text that a log counts. */
export const MAX_BYTES = 2 ** 50;

export interface LogLine {
  readonly t: number;
  readonly stream: LogStream;
  readonly text: string;
  /** It continues the line before it of the same stream. */
  readonly continued: boolean;
}

/** Consecutive lines that a worker sends in one request. */
export interface LogChunk {
  readonly firstLine: number;
  readonly lines: readonly LogLine[];
  readonly isLast: boolean;
  /** Bytes of text that the worker left out before the first line; null if not known. */
  readonly skippedBytes: number | null;
  /** What the worker's next process goes on from; null: it does not say. */
  readonly cursor: string | null;
}

/** A position between two lines of a log, with counts of what was printed before it. */
export interface LogPosition {
  /** Number of the next line. */
  readonly line: number;
  /** Bytes of text before it, without the gaps of unknown size. */
  readonly bytes: number;
  /** Gaps of unknown size before it. */
  readonly unknownGaps: number;
}

export const LOG_START: LogPosition = { line: 0, bytes: 0, unknownGaps: 0 };

/** Lines that were printed and are not stored. */
export interface LogGap {
  readonly line: number;
  readonly lines: number;
  /** Bytes of text; null if not known. */
  readonly bytes: number | null;
}

/** What a reader gets: a line or a gap, and the position after it. */
export type LogEntry = (
  | { readonly line: LogLine; readonly number: number; readonly bytes: number }
  | { readonly gap: LogGap }
) & { readonly end: LogPosition };

/** The gap between two positions; null if no line is between them. */
export function gapBetween(from: LogPosition, to: LogPosition): LogGap | null {
  if (to.line <= from.line) return null;
  const isKnown = to.unknownGaps === from.unknownGaps && to.bytes >= from.bytes;
  return { line: from.line, lines: to.line - from.line, bytes: isKnown ? to.bytes - from.bytes : null };
}

/** Entries of a row, which begins at `start`, for a reader at `from`: the gap before the row, then the newer lines. */
export function* entriesOf(
  start: LogPosition,
  lines: readonly LogLine[],
  from: LogPosition,
): Generator<LogEntry> {
  const gap = gapBetween(from, start);
  if (gap !== null) yield { gap, end: start };
  let { line: number, bytes: before } = start;
  for (const line of lines) {
    const bytes = Buffer.byteLength(line.text);
    before += bytes;
    if (number >= from.line)
      yield { line, number, bytes, end: { ...start, line: number + 1, bytes: before } };
    number += 1;
  }
}

/** Bytes of text, and pieces, that a line has at most; a longer line counts as several. */
const MAX_JOINED_BYTES = 1024 * 1024;
const MAX_JOINED_PIECES = 1_000;

/** Whether an entry is a further piece of the line of another: only that of the entry right before it. */
export function continues(entry: LogEntry, before: LogEntry | undefined): boolean {
  if (before === undefined || 'gap' in before || 'gap' in entry) return false;
  const { line, number } = entry;
  return line.continued && line.stream === before.line.stream && number === before.number + 1;
}

/** Puts the pieces of each line together while a log is read entry by entry, in one direction. A gap is for itself. */
export class LinePieces {
  /** In the order of reading. */
  #pieces: LogEntry[] = [];
  #bytes = 0;

  constructor(private readonly isBackwards: boolean) {}

  /** Adds the entry that is read next. @returns the pieces of the line read before it, oldest first; empty while the line goes on */
  add(entry: LogEntry): readonly LogEntry[] {
    const last = this.#pieces.at(-1);
    const isSame =
      last !== undefined &&
      (this.isBackwards ? continues(last, entry) : continues(entry, last)) &&
      this.#bytes < MAX_JOINED_BYTES &&
      this.#pieces.length < MAX_JOINED_PIECES;
    const ended = isSame ? [] : this.end();
    this.#pieces.push(entry);
    if ('line' in entry) this.#bytes += entry.bytes;
    return ended;
  }

  /** The pieces that no other one has followed, oldest first; empty if there are none. */
  end(): readonly LogEntry[] {
    const pieces = this.isBackwards ? this.#pieces.toReversed() : this.#pieces;
    this.#pieces = [];
    this.#bytes = 0;
    return pieces;
  }
}
