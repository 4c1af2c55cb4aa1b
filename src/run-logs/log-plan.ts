import type { LogChunk } from './log-chunk.js';
import type { LogPoint } from './log-point.js';
import { MOST_BYTES, type LogLine } from './log-shapes.js';

/** Text of a row at most, in bytes, unless one line has more: what has to be unpacked to read one line. */
const ROW_BYTES = 128 * 1024;
/** A half of the limit is cut into this many rows at least, since whole rows are dropped. */
const ROWS_OF_A_HALF = 16;
/** What a row counts for at least, so that many small chunks have a limit too. */
const LIGHTEST_ROW = 128;

/** How far a log has come, and what its limit has left. */
export interface LogState {
  readonly nextChunk: number;
  /** Behind everything that was printed. */
  readonly end: LogPoint;
  /** What all rows ever stored count for; see {@link LogRow}. */
  readonly weight: number;
  /** Where the head ended because it was full; null while it takes lines. */
  readonly tail: { readonly line: number; readonly weight: number } | null;
  readonly isComplete: boolean;
}

/** A log that nothing was added to. */
export const EMPTY_LOG: LogState = {
  nextChunk: 0,
  end: { line: 0, bytes: 0, unknownGaps: 0 },
  weight: 0,
  tail: null,
  isComplete: false,
};

/** Lines that are stored together. */
export interface LogRow {
  /** Before the first line. */
  readonly start: LogPoint;
  /** None only where a log ends with a gap. */
  readonly lines: readonly LogLine[];
  /** Bytes of their text. */
  readonly textBytes: number;
  /** What all rows before it count for, those that were dropped as well. */
  readonly weightBefore: number;
}

/** What one chunk does to a log. */
export interface LogChange {
  readonly state: LogState;
  readonly rows: readonly LogRow[];
  /** Rows of the tail with less weight before them are dropped; null: none is. */
  readonly dropBelow: number | null;
}

/** The chunk cannot be the next one. */
export interface ChunkRefusal {
  readonly refusal: string;
}

/**
 * Adds the next chunk to a log and keeps it within its limit: lines go to the head until it holds half of the limit;
 * of those behind it the newest are kept that come to the other half. A line counts for its text and its line end.
 * @param limitBytes of the log
 */
export function addChunk(log: LogState, chunk: LogChunk, limitBytes: number): LogChange | ChunkRefusal {
  if (log.isComplete) return { refusal: 'The log is complete' };
  if (chunk.firstLine < log.end.line) {
    return { refusal: `Line ${chunk.firstLine} is there already; ${log.end.line} is expected` };
  }
  const half = Math.floor(limitBytes / 2);
  const start = behindGap(log.end, chunk);
  const cutter = new RowCutter(half, start, log.weight, log.tail);
  for (const line of chunk.lines) cutter.add(line);
  const cut = cutter.finish();
  const endsWithGap = chunk.lines.length === 0 && start.line > log.end.line;
  const rows = endsWithGap ? [{ start, lines: [], textBytes: 0, weightBefore: log.weight }] : cut.rows;
  const dropBelow = cut.weight - half;
  const drops = cut.tail !== null && dropBelow > cut.tail.weight;
  return {
    state: {
      nextChunk: log.nextChunk + 1,
      end: cut.end,
      weight: cut.weight,
      tail: cut.tail,
      isComplete: chunk.isLast,
    },
    rows: drops ? rows.filter((row) => isKept(row, cut.tail, dropBelow) || row === rows.at(-1)) : rows,
    dropBelow: drops ? dropBelow : null,
  };
}

/** Whether a row is kept once what has less weight before it is dropped. */
export function isKept(
  { start, weightBefore }: Pick<LogRow, 'start' | 'weightBefore'>,
  tail: LogState['tail'],
  dropBelow: number,
): boolean {
  return tail === null || start.line < tail.line || weightBefore >= dropBelow;
}

/** Where a chunk begins: behind what its sender left out. */
function behindGap(end: LogPoint, { firstLine, skippedBytes }: LogChunk): LogPoint {
  if (firstLine === end.line) return end;
  const bytes = end.bytes + (skippedBytes ?? Infinity);
  return bytes <= MOST_BYTES
    ? { line: firstLine, bytes, unknownGaps: end.unknownGaps }
    : { line: firstLine, bytes: end.bytes, unknownGaps: end.unknownGaps + 1 };
}

/** Cuts lines into rows, and the head from the tail. */
class RowCutter {
  readonly #rows: LogRow[] = [];
  readonly #rowBytes: number;
  #end: LogPoint;
  #lines: LogLine[] = [];
  #start: LogPoint;
  #textBytes = 0;

  constructor(
    private readonly half: number,
    start: LogPoint,
    private weight: number,
    private tail: LogState['tail'],
  ) {
    this.#rowBytes = Math.min(ROW_BYTES, half / ROWS_OF_A_HALF);
    this.#end = start;
    this.#start = start;
  }

  add(line: LogLine): void {
    const bytes = Buffer.byteLength(line.text);
    if (this.#lines.length > 0 && this.#textBytes + bytes > this.#rowBytes) this.#endRow();
    if (this.tail === null && this.weight + this.#rowWeight(bytes) > this.half) {
      this.#endRow();
      this.tail = { line: this.#end.line, weight: this.weight };
    }
    this.#lines.push(line);
    this.#textBytes += bytes;
    this.#end = { ...this.#end, line: this.#end.line + 1, bytes: this.#end.bytes + bytes };
  }

  finish(): Pick<LogState, 'end' | 'weight' | 'tail'> & { readonly rows: readonly LogRow[] } {
    this.#endRow();
    return { end: this.#end, weight: this.weight, tail: this.tail, rows: this.#rows };
  }

  /** What the row under way would count for with one more line. */
  #rowWeight(moreBytes: number): number {
    return Math.max(LIGHTEST_ROW, this.#textBytes + moreBytes + this.#lines.length + 1);
  }

  #endRow(): void {
    if (this.#lines.length > 0) {
      const weight = Math.max(LIGHTEST_ROW, this.#textBytes + this.#lines.length);
      this.#rows.push({
        start: this.#start,
        lines: this.#lines,
        textBytes: this.#textBytes,
        weightBefore: this.weight,
      });
      this.weight += weight;
    }
    this.#lines = [];
    this.#textBytes = 0;
    this.#start = this.#end;
  }
}
