import { MAX_BYTES, type LogChunk, type LogLine, LOG_START, type LogPosition } from './log-line.js';

/** Bytes of text in a row, unless one line has more: what is unpacked to read one line. */
const ROW_BYTES = 128 * 1024;
/** Half of the limit holds at least this many rows, since whole rows are dropped. */
const ROWS_PER_HALF = 16;
/** The least weight of a row, so that many small chunks reach the limit too. */
const MIN_ROW_WEIGHT = 128;

export interface LogState {
  readonly nextChunk: number;
  /** Behind everything that was printed. */
  readonly end: LogPosition;
  /** Weight of all rows ever stored. */
  readonly weight: number;
  /** Where the head of the log ended because it was full; null while the head takes lines. */
  readonly tail: { readonly line: number; readonly weight: number } | null;
  readonly isComplete: boolean;
  /** What the worker has sent to go on after the newest chunk; null: nothing. */
  readonly cursor: string | null;
}

export const EMPTY_LOG: LogState = {
  nextChunk: 0,
  end: LOG_START,
  weight: 0,
  tail: null,
  isComplete: false,
  cursor: null,
};

export interface LogRow {
  /** In front of the first line. */
  readonly start: LogPosition;
  /** Empty only for the last row of a log that ends with a gap. */
  readonly lines: readonly LogLine[];
  readonly textBytes: number;
  /** Weight of all rows before it, including dropped ones. */
  readonly weightBefore: number;
}

/** What a chunk changes in a log. */
export interface LogChange {
  readonly state: LogState;
  readonly rows: readonly LogRow[];
  /** Rows of the tail with a lower weight before them are dropped; null for none. */
  readonly dropBelow: number | null;
}

/**
 * Adds the next chunk to a log and keeps it within its limit: the head takes lines up to half of it, the tail keeps the
 * newest lines in the other half. A row weighs its text and a byte per line.
 */
export function addChunk(
  log: LogState,
  chunk: LogChunk,
  limitBytes: number,
): LogChange | { readonly refusal: string } {
  if (log.isComplete) return { refusal: 'The log is complete' };
  if (chunk.firstLine < log.end.line) {
    return { refusal: `Line ${chunk.firstLine} is there already; ${log.end.line} is expected` };
  }
  const half = Math.floor(limitBytes / 2);
  const { rows, ...cut } = cutRows(log, chunk, half);
  const state = {
    ...cut,
    nextChunk: log.nextChunk + 1,
    isComplete: chunk.isLast,
    cursor: chunk.cursor ?? log.cursor,
  };
  const dropBelow = cut.weight - half;
  if (cut.tail === null || dropBelow <= cut.tail.weight) return { state, rows, dropBelow: null };
  const kept = rows.filter((row) => isKept(row, cut.tail, dropBelow) || row === rows.at(-1));
  return { state, rows: kept, dropBelow };
}

/** Whether a row is still stored after rows with a lower weight before them were dropped. */
export function isKept(
  { start, weightBefore }: Pick<LogRow, 'start' | 'weightBefore'>,
  tail: LogState['tail'],
  dropBelow: number,
): boolean {
  return tail === null || start.line < tail.line || weightBefore >= dropBelow;
}

/** Cuts the lines of a chunk into rows, and starts the tail when the head is full. */
function cutRows(
  log: LogState,
  chunk: LogChunk,
  half: number,
): Pick<LogState, 'end' | 'weight' | 'tail'> & { readonly rows: readonly LogRow[] } {
  const rowBytes = Math.min(ROW_BYTES, half / ROWS_PER_HALF);
  const rows: LogRow[] = [];
  let { weight, tail } = log;
  let end = startOf(log.end, chunk);
  let row = { start: end, lines: [] as LogLine[], textBytes: 0, weightBefore: weight };
  const endRow = (): void => {
    if (row.lines.length > 0) {
      rows.push(row);
      weight += weightOf(row.textBytes, row.lines.length);
    }
    row = { start: end, lines: [], textBytes: 0, weightBefore: weight };
  };
  if (chunk.lines.length === 0 && end.line > log.end.line) rows.push(row);
  for (const line of chunk.lines) {
    const bytes = Buffer.byteLength(line.text);
    if (row.lines.length > 0 && row.textBytes + bytes > rowBytes) endRow();
    if (tail === null && weight + weightOf(row.textBytes + bytes, row.lines.length + 1) > half) {
      endRow();
      tail = { line: end.line, weight };
    }
    row.lines.push(line);
    row.textBytes += bytes;
    end = { ...end, line: end.line + 1, bytes: end.bytes + bytes };
  }
  endRow();
  return { end, weight, tail, rows };
}

/** Where a chunk starts: after what the worker left out. */
function startOf(end: LogPosition, { firstLine, skippedBytes }: LogChunk): LogPosition {
  if (firstLine === end.line) return end;
  const bytes = end.bytes + (skippedBytes ?? Infinity);
  return bytes <= MAX_BYTES
    ? { ...end, line: firstLine, bytes }
    : { ...end, line: firstLine, unknownGaps: end.unknownGaps + 1 };
}

function weightOf(textBytes: number, lines: number): number {
  return Math.max(MIN_ROW_WEIGHT, textBytes + lines);
}
