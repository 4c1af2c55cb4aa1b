import type { LogEntryDto } from './dto/log-entry.dto.js';
import { continues } from './line-pieces.js';
import { cursorsOf } from './log-cursor.js';
import type { LogEntry, LogPosition } from './log-position.js';

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
