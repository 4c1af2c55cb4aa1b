import { Store } from '../../../lib/store.js';
import { LiveFilter } from './live-filter.js';
import type { LogEntry, LogPage, ReadLog } from './log-page.js';
import { append, isFull, prepend } from './log-window.js';

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
