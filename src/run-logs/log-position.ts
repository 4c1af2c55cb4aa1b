import type { LogLine } from './log-line.js';

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
  { readonly line: LogLine; readonly number: number; readonly bytes: number } | { readonly gap: LogGap }
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
