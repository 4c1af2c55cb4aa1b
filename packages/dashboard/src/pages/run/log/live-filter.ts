import type { LogEntry, LogPage } from './log-page.js';

/** Pieces and characters that a line has at most, as in searches of the service. */
const MOST_PIECES = 1_000;
const MOST_CHARACTERS = 1024 * 1024;

type LogLine = Extract<LogEntry, { readonly text: string }>;

/** Chooses the lines of a stream that contain a text, which may cross from one piece of a line into the next. */
export class LiveFilter {
  readonly #wanted: string;
  /** Pieces of the last line while it does not match: it is not shown yet. */
  #pieces: LogLine[] = [];
  #text = '';

  /** @param contains in any case; empty: every line matches */
  constructor(contains: string) {
    this.#wanted = contains.toLowerCase();
  }

  /** @returns what to add to the window, and the cursor behind it; a line that may still match is not behind it */
  choose(entries: readonly LogEntry[], window: LogPage): Pick<LogPage, 'entries' | 'after'> {
    const shown: LogEntry[] = [];
    let { after } = window;
    for (const entry of entries) {
      const last = this.#pieces.at(-1);
      const isFull = this.#pieces.length >= MOST_PIECES || this.#text.length >= MOST_CHARACTERS;
      if (isFull || !continues(entry, last)) {
        // Another number: the stream has begun anew, and what it passed is of no account.
        if (entry.line === (last?.line ?? NaN) + 1) after = last?.cursor ?? after;
        this.#forget();
      }
      if ('gap' in entry || continues(entry, shown.at(-1) ?? window.entries.at(-1))) {
        shown.push(entry);
        after = entry.cursor;
        continue;
      }
      this.#pieces.push(entry);
      this.#text += entry.text;
      if (!this.#text.toLowerCase().includes(this.#wanted)) continue;
      shown.push(...this.#pieces);
      after = entry.cursor;
      this.#forget();
    }
    return { entries: shown, after };
  }

  #forget(): void {
    this.#pieces = [];
    this.#text = '';
  }
}

/** Whether an entry is a further piece of the line of another one. */
function continues(entry: LogEntry, before: LogEntry | undefined): boolean {
  if (before === undefined || 'gap' in entry || 'gap' in before) return false;
  return entry.continued === true && entry.stream === before.stream && entry.line === before.line + 1;
}
