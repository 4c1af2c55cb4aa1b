import type { LogEntry } from './log-position.js';

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
