import type { LogEntryDto } from './dto/log-entry.dto.js';
import { cursorsOf } from './log-cursor.js';
import type { LogPoint } from './log-point.js';
import type { LogStep } from './log-walk.js';

/** A stretch of a log. */
export interface LogStretch {
  readonly runId: string;
  readonly attempt: number;
  readonly steps: readonly LogStep[];
  /** In front of the stretch. */
  readonly start: LogPoint;
  /** Behind the stretch. */
  readonly end: LogPoint;
  /** Nothing will come behind it. */
  readonly isComplete: boolean;
  /** More is there already. */
  readonly hasMore: boolean;
  /** Number of the chunk that the log expected before it was read. */
  readonly nextChunk: number;
}

/** A stretch of a log as readers see it. */
export class LogPage {
  readonly attempt: number;
  readonly nextCursor: string;
  readonly previousCursor: string;
  readonly hasPrevious: boolean;
  readonly isComplete: boolean;
  readonly hasMore: boolean;
  readonly isEmpty: boolean;
  readonly #entries: readonly LogEntryDto[];

  constructor({ runId, attempt, steps, start, end, isComplete, hasMore }: LogStretch) {
    const cursorOf = cursorsOf(runId, attempt);
    this.attempt = attempt;
    this.nextCursor = cursorOf(end);
    this.previousCursor = cursorOf(start);
    this.hasPrevious = start.line > 0;
    this.isComplete = isComplete;
    this.hasMore = hasMore;
    this.isEmpty = steps.length === 0;
    this.#entries = steps.map((step) => toEntryDto(step, cursorOf));
  }

  /** The entries as JSON, one a line. */
  get jsonLines(): string {
    return this.#entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
  }

  /** The text alone, a line for each. */
  get plainText(): string {
    return this.#entries.map((entry) => `${plainLine(entry)}\n`).join('');
  }

  /** The entries in the format of Server-Sent Events. */
  get frames(): Buffer {
    return Buffer.from(
      this.#entries.map((entry) => `id: ${entry.cursor}\ndata: ${JSON.stringify(entry)}\n\n`).join(''),
    );
  }
}

function toEntryDto(step: LogStep, cursorOf: (point: LogPoint) => string): LogEntryDto {
  const cursor = cursorOf(step.behind);
  if ('gap' in step) {
    const { line, lines, bytes } = step.gap;
    return { cursor, line, gap: { lines, bytes } };
  }
  const { t, stream, text, continued } = step.line;
  return {
    cursor,
    line: step.number,
    t: new Date(t).toISOString(),
    stream,
    text,
    ...(continued ? { continued } : {}),
  };
}

function plainLine(entry: LogEntryDto): string {
  if ('text' in entry) return entry.text;
  const { lines } = entry.gap;
  return `[... ${lines} ${lines === 1 ? 'line' : 'lines'} left out ...]`;
}
