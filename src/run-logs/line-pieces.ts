import type { LogEntry } from './log-position.js';

/** Bytes of text at most that the pieces of a line have together; a longer line counts as several. */
const MAX_JOINED_BYTES = 1024 * 1024;

/** Whether an entry is a further piece of the line that the entry right before it is of. */
export function continues(entry: LogEntry, before: LogEntry | undefined): boolean {
  if (before === undefined || 'gap' in before || 'gap' in entry) return false;
  return entry.line.continued && entry.line.stream === before.line.stream;
}

/** Puts the pieces of each line together while a log is read entry by entry, in one direction. A gap is for itself. */
export class LinePieces {
  #pieces: LogEntry[] = [];
  #bytes = 0;

  /** Adds the next entry. @returns the pieces of the line before it, oldest first; empty while the line goes on */
  addNewer(entry: LogEntry): readonly LogEntry[] {
    const isSame = continues(entry, this.#pieces.at(-1)) && this.#bytes < MAX_JOINED_BYTES;
    const ended = isSame ? [] : this.end();
    this.#pieces.push(entry);
    this.#count(entry);
    return ended;
  }

  /** Adds the entry in front. @returns the pieces of the line behind it, oldest first; empty while the line goes on */
  addOlder(entry: LogEntry): readonly LogEntry[] {
    const [oldest] = this.#pieces;
    const isSame = oldest !== undefined && continues(oldest, entry) && this.#bytes < MAX_JOINED_BYTES;
    const ended = isSame ? [] : this.end();
    this.#pieces.unshift(entry);
    this.#count(entry);
    return ended;
  }

  /** The pieces that no other one has followed; empty if there are none. */
  end(): readonly LogEntry[] {
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#bytes = 0;
    return pieces;
  }

  #count(entry: LogEntry): void {
    if ('line' in entry) this.#bytes += entry.bytes;
  }
}
