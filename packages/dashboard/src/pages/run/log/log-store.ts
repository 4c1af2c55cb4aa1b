import { searchedText } from '@longshore/common/shown-text';
import { Store } from '../../../lib/store.js';
import type { LogEntry, LogPage, ReadLog } from './log-page.js';

const PAGE_LINES = 1000;
const CONTEXT_LINES = 300;
/** Pause after a read that failed, in milliseconds. */
const PAUSE_MS = 2000;

/** What is shown of a log. */
export interface LogView {
  /** Undefined until the first answer. */
  readonly window: LogPage | undefined;
  readonly isLoading: boolean;
  /** Another place is being read: what a stream brings meanwhile does not belong to it. */
  readonly isJumping: boolean;
  /** A read has failed just now: the next has to wait. */
  readonly isPausing: boolean;
  readonly error: unknown;
}

/**
 * One log as far as it is looked at: reads the newest lines first and what is in front or behind as it is asked for. One
 * read at a time; a jump takes the place of a read that is under way. After a read that failed only a jump is done at once.
 */
export class LogStore extends Store<LogView> {
  #reading: AbortController | undefined;
  #pause: ReturnType<typeof setTimeout> | undefined;
  /** The stream has ended, and how much of the log is stored is not read yet. */
  #hasEnded = false;
  readonly #filter: LiveFilter;

  /** @param contains only lines with this text; empty: all */
  constructor(
    private readonly read: ReadLog,
    private readonly contains: string,
  ) {
    super({ window: undefined, isLoading: false, isJumping: false, isPausing: false, error: undefined });
    this.#filter = new LiveFilter(contains);
  }

  stop(): void {
    this.#reading?.abort();
    this.#reading = undefined;
    clearTimeout(this.#pause);
    this.#change({ isLoading: false, isJumping: false, isPausing: false });
  }

  /** Shows the newest lines. */
  toEnd(): Promise<void> {
    return this.#jump((signal) => this.#page({ tail: PAGE_LINES }, signal));
  }

  /** Shows the first lines. */
  toStart(): Promise<void> {
    return this.#jump((signal) => this.#page({ limit: PAGE_LINES }, signal));
  }

  /** Shows what is around an entry. @param cursor behind the entry */
  toPlace(cursor: string): Promise<void> {
    return this.#jump(async (signal) => {
      const before = await this.#page({ before: cursor, limit: CONTEXT_LINES }, signal);
      return append(before, await this.#page({ after: cursor, limit: PAGE_LINES }, signal));
    });
  }

  async older(): Promise<void> {
    const { window } = this.get();
    if (window === undefined || !window.hasOlder || this.#isBusy()) return;
    const query = { before: window.before, limit: PAGE_LINES };
    await this.#load(async (signal) => {
      const page = await this.#page(query, signal);
      return prepend(this.get().window ?? window, page);
    }, false);
  }

  async newer(): Promise<void> {
    const { window } = this.get();
    if (window === undefined || window.isAtEnd || this.#isBusy()) return;
    const query = { after: window.after, limit: PAGE_LINES };
    await this.#load(async (signal) => {
      return append(window, await this.#page(query, signal));
    }, false);
  }

  /**
   * Adds what a stream brought behind the newest line.
   * @param isFollowed false: the user reads further up, and what is shown must stay; a full window takes no more
   */
  follow(entries: readonly LogEntry[], isFollowed: boolean): void {
    const { window } = this.get();
    if (window === undefined || entries.length === 0 || !window.isAtEnd) return;
    if (!isFollowed && isFull(window)) {
      this.#change({ window: { ...window, isAtEnd: false } });
      return;
    }
    const { entries: shown, after } = this.#filter.choose(entries, window);
    this.#change({
      window: append(window, { entries: shown, after, isAtEnd: true, isComplete: false, leftOut: 0 }),
    });
  }

  /** Nothing will follow: reads how much of the log is stored, as soon as no other read is under way and none has to wait. */
  complete(): Promise<void> {
    this.#hasEnded = true;
    return this.#readEnd();
  }

  async #readEnd(): Promise<void> {
    const { window } = this.get();
    if (!this.#hasEnded || window === undefined || !window.isAtEnd || window.isComplete || this.#isBusy())
      return;
    await this.#load(async (signal) => {
      const page = await this.#page({ after: window.after, limit: PAGE_LINES }, signal);
      this.#hasEnded = signal.aborted;
      return append(window, page);
    }, false);
  }

  #isBusy(): boolean {
    return this.get().isLoading || this.get().isPausing;
  }

  #jump(load: (signal: AbortSignal) => Promise<LogPage>): Promise<void> {
    return this.#load(load, true);
  }

  async #load(load: (signal: AbortSignal) => Promise<LogPage>, isJumping: boolean): Promise<void> {
    this.#reading?.abort();
    const reading = new AbortController();
    this.#reading = reading;
    clearTimeout(this.#pause);
    this.#change({ isLoading: true, isJumping, isPausing: false });
    try {
      const window = await load(reading.signal);
      if (reading.signal.aborted) return;
      this.#change({ window, isLoading: false, isJumping: false, error: undefined });
    } catch (error) {
      if (reading.signal.aborted) return;
      this.#change({ isLoading: false, isJumping: false, isPausing: true, error });
      this.#pause = setTimeout(() => {
        this.#change({ isPausing: false });
        void this.#readEnd();
      }, PAUSE_MS);
      return;
    }
    await this.#readEnd();
  }

  #page(query: Parameters<ReadLog>[0], signal: AbortSignal): Promise<LogPage> {
    return this.read(this.contains === '' ? query : { ...query, contains: this.contains }, signal);
  }

  #change(change: Partial<LogView>): void {
    this.set({ ...this.get(), ...change });
  }
}

/** Entries and characters that a tab holds of a log at most, however long the log is. */
const MOST_ENTRIES = 20_000;
const MOST_CHARACTERS = 8_000_000;
/** Trimmed at once, so that not every line that comes costs a copy. */
const TRIMMED_ENTRIES = 2000;

/** Adds what is in front of the window; what is too much goes at the other end. */
function prepend(window: LogPage, { entries, before, hasOlder }: LogPage): LogPage {
  const all = [...entries, ...window.entries];
  const older = { ...window, before, hasOlder };
  const kept = countKept(all.values());
  const last = all[kept - 1];
  if (kept === all.length || last === undefined) return { ...older, entries: all };
  return { ...older, entries: all.slice(0, kept), after: last.cursor, isAtEnd: false, isComplete: false };
}

/** Adds what is behind the window; what is too much goes at the other end. */
function append(
  window: LogPage,
  { entries, after, isAtEnd, isComplete, leftOut }: Omit<LogPage, 'before' | 'hasOlder'>,
): LogPage {
  const all = entries.length === 0 ? window.entries : [...window.entries, ...entries];
  const newer = { ...window, after, isAtEnd, isComplete, leftOut, entries: all };
  const kept = countKept(all.toReversed().values());
  const trimmed = all[all.length - kept - 1];
  if (trimmed === undefined) return newer;
  return { ...newer, entries: all.slice(all.length - kept), before: trimmed.cursor, hasOlder: true };
}

/** Whether more lines would push others out. */
function isFull({ entries }: LogPage): boolean {
  return entries.length >= MOST_ENTRIES - TRIMMED_ENTRIES;
}

function countKept(entries: Iterable<LogEntry>): number {
  let count = 0;
  let characters = 0;
  for (const entry of entries) {
    characters += 'text' in entry ? entry.text.length : 0;
    if (count > 0 && characters > MOST_CHARACTERS) return count;
    count += 1;
  }
  return count > MOST_ENTRIES ? MOST_ENTRIES - TRIMMED_ENTRIES : count;
}

/** Pieces and characters that a line has at most, as in searches of the service. */
const MOST_PIECES = 1_000;
const MOST_LINE_CHARACTERS = 1024 * 1024;

type LogLine = Extract<LogEntry, { readonly text: string }>;

/** Chooses the lines of a stream that contain a text, which may cross from one piece of a line into the next. */
class LiveFilter {
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
      const isLong = this.#pieces.length >= MOST_PIECES || this.#text.length >= MOST_LINE_CHARACTERS;
      if (isLong || !continues(entry, last)) {
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
      if (!searchedText(this.#text).toLowerCase().includes(this.#wanted)) continue;
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
