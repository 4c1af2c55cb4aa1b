/** A place in a log: everything before it has been printed. */
export interface LogPoint {
  /** Number of the next line. */
  readonly line: number;
  /** Bytes of text before it, as far as they are known. */
  readonly bytes: number;
  /** Gaps before it whose size is not known. */
  readonly unknownGaps: number;
}

/** Before the first line. */
export const LOG_START: LogPoint = { line: 0, bytes: 0, unknownGaps: 0 };

/** A stretch of lines that were printed and are not there. */
export interface LogGap {
  /** Number of the first of them. */
  readonly line: number;
  readonly lines: number;
  /** Bytes of text; null where that is not known. */
  readonly bytes: number | null;
}

/** What is missing between two places; null when nothing is. */
export function gapBetween(from: LogPoint, to: LogPoint): LogGap | null {
  if (to.line <= from.line) return null;
  const isKnown = to.unknownGaps === from.unknownGaps && to.bytes >= from.bytes;
  return { line: from.line, lines: to.line - from.line, bytes: isKnown ? to.bytes - from.bytes : null };
}
