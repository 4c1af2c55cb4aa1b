import type { LogEntryDto } from './log.dto.js';
import { continues, type LogEntry, type LogPosition } from './log-line.js';
import { createHash } from 'node:crypto';

/** How many lines of a log were printed, and how many of them are not stored, whoever left them out. */
export interface LogLines {
  readonly printed: number;
  readonly leftOut: number;
}

export interface LogPage {
  readonly runId: string;
  readonly attempt: number;
  readonly entries: readonly LogEntry[];
  /** In front of the page. */
  readonly start: LogPosition;
  /** Behind the page. */
  readonly end: LogPosition;
  /** Nothing will be added after the page. */
  readonly isComplete: boolean;
  /** Lines of a log that is complete; null while it may grow. */
  readonly lines: LogLines | null;
  /** More entries are stored after the page. */
  readonly hasMore: boolean;
  /** Number of the chunk that the log expected before the page was read. */
  readonly nextChunk: number;
}

export function toJsonLines(page: LogPage): string {
  return toDtos(page)
    .map((entry) => `${JSON.stringify(entry)}\n`)
    .join('');
}

/** A line each, whatever the number of its pieces. */
export function toPlainText({ entries }: LogPage): string {
  const texts = entries.map((entry, index) => {
    const end = index === 0 || continues(entry, entries[index - 1]) ? '' : '\n';
    if ('line' in entry) return end + entry.line.text;
    const { lines: missing } = entry.gap;
    return `${end}[... ${missing} ${missing === 1 ? 'line' : 'lines'} left out ...]`;
  });
  return texts.length === 0 ? '' : `${texts.join('')}\n`;
}

export function toFrames(page: LogPage): Buffer {
  const frames = toDtos(page).map((entry) => `id: ${entry.cursor}\ndata: ${JSON.stringify(entry)}\n\n`);
  return Buffer.from(frames.join(''));
}

/** The event after the last line. Its id, which clients send when they connect again, tells that they have seen the end. */
export function toEndFrame({ runId, attempt, end, lines }: LogPage): Buffer {
  const data = JSON.stringify({ lines: lines?.printed, left_out: lines?.leftOut });
  return Buffer.from(`id: ${cursorsOf(runId, attempt)(end)}\nevent: end\ndata: ${data}\n\n`);
}

function toDtos({ runId, attempt, entries }: LogPage): LogEntryDto[] {
  const toCursor = cursorsOf(runId, attempt);
  return entries.map((entry) => {
    const cursor = toCursor(entry.end);
    if ('gap' in entry) {
      const { line, lines, bytes } = entry.gap;
      return { cursor, line, gap: { lines, bytes } };
    }
    const { t, stream, text, continued } = entry.line;
    const time = new Date(t).toISOString();
    return { cursor, line: entry.number, t: time, stream, text, ...(continued && { continued }) };
  });
}

// Offsets of the fields: attempt (2 bytes), line (6), bytes (7), unknown gaps (4), hash of the run id (5).
const LINE_AT = 2;
const BYTES_AT = 8;
const GAPS_AT = 15;
const HASH_AT = 19;
const LENGTH = 24;
const FORM = /^[A-Za-z0-9_-]{32}$/;

export interface LogCursor {
  readonly attempt: number;
  readonly position: LogPosition;
}

/** Makes cursors of one log. */
export function cursorsOf(runId: string, attempt: number): (position: LogPosition) => string {
  const hash = hashOf(runId);
  return ({ line, bytes, unknownGaps }) => {
    const buffer = Buffer.alloc(LENGTH);
    // The number of bytes has 7 bytes: its eighth, which is 0, is overwritten by the line.
    buffer.writeBigUInt64BE(BigInt(bytes), BYTES_AT - 1);
    buffer.writeUInt16BE(attempt);
    buffer.writeUIntBE(line, LINE_AT, BYTES_AT - LINE_AT);
    buffer.writeUInt32BE(unknownGaps, GAPS_AT);
    hash.copy(buffer, HASH_AT);
    return buffer.toString('base64url');
  };
}

/** Reads a client's cursor for a run; null if it was not made for this run. */
export function decodeCursor(runId: string, text: string): LogCursor | null {
  if (!FORM.test(text)) return null;
  const buffer = Buffer.from(text, 'base64url');
  if (!buffer.subarray(HASH_AT).equals(hashOf(runId))) return null;
  return {
    attempt: buffer.readUInt16BE(),
    position: {
      line: buffer.readUIntBE(LINE_AT, BYTES_AT - LINE_AT),
      bytes: Number(BigInt.asUintN(56, buffer.readBigUInt64BE(BYTES_AT - 1))),
      unknownGaps: buffer.readUInt32BE(GAPS_AT),
    },
  };
}

function hashOf(runId: string): Buffer {
  return createHash('sha256')
    .update(runId)
    .digest()
    .subarray(0, LENGTH - HASH_AT);
}
