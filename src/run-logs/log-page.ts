import type { LogEntryDto } from './dto/log-entry.dto.js';

/** A stretch of a log as readers see it. */
export interface LogPageParts {
  readonly attempt: number;
  readonly entries: readonly LogEntryDto[];
  /** Continues behind the stretch. */
  readonly nextCursor: string;
  /** Nothing will come behind it. */
  readonly isComplete: boolean;
  /** More is there already. */
  readonly hasMore: boolean;
}

/** A page of a log. */
export class LogPage {
  readonly attempt: number;
  readonly entries: readonly LogEntryDto[];
  readonly nextCursor: string;
  readonly isComplete: boolean;
  readonly hasMore: boolean;

  constructor({ attempt, entries, nextCursor, isComplete, hasMore }: LogPageParts) {
    this.attempt = attempt;
    this.entries = entries;
    this.nextCursor = nextCursor;
    this.isComplete = isComplete;
    this.hasMore = hasMore;
  }

  /** The entries as JSON, one a line. */
  get jsonLines(): string {
    return this.entries.map((entry) => `${JSON.stringify(entry)}\n`).join('');
  }

  /** The text alone; a piece of a long line goes on behind the one before it. */
  get plainText(): string {
    return this.entries.map((entry) => `${plainLine(entry)}\n`).join('');
  }

  /** The entries in the format of Server-Sent Events. */
  get frames(): Buffer {
    return Buffer.from(
      this.entries.map((entry) => `id: ${entry.cursor}\ndata: ${JSON.stringify(entry)}\n\n`).join(''),
    );
  }
}

function plainLine(entry: LogEntryDto): string {
  if ('text' in entry) return entry.text;
  const { lines } = entry.gap;
  return `[... ${lines} ${lines === 1 ? 'line' : 'lines'} left out ...]`;
}
