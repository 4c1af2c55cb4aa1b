/** Pause between two turns of a topic's readers for each of them, in milliseconds; and the longest pause. */
const PAUSE_OF_A_READER_MS = 1;
const LONGEST_PAUSE_MS = 100;

/** A reader that waits for its turn. */
export interface WaitingReader {
  /** Position up to which it has seen, and the version of its last look; undefined: it wants a turn whatever there is. */
  readonly seen: { readonly after: number; readonly since: number } | undefined;
  readonly wake: () => void;
}

/**
 * What is known of a topic while somebody watches it. Its readers take turns together: the first news after a quiet time
 * wakes them at once, and what comes faster than they can be served is gathered, for they share one query and one
 * text each turn.
 */
export class TopicNotifications {
  watchers = 0;
  readonly #waiting = new Set<WaitingReader>();
  #version: number;
  #announced = 0;
  #unsure = 0;
  #turnAt = -Infinity;
  #timer: NodeJS.Timeout | undefined;
  /** Places behind which nothing was, each with the position behind which the feed goes on, and for which version. */
  #end: { readonly places: Map<number | null, number>; readonly version: number } | undefined;

  /** @param version grows with everything that is heard; no two moments of any topic share a number */
  constructor(version: number) {
    this.#version = version;
  }

  get version(): number {
    return this.#version;
  }

  /** Whether it is known for any place that nothing is behind it. */
  get knowsEnd(): boolean {
    return this.#end?.version === this.#version;
  }

  /** Entries up to this position have been made. */
  announced(position: number, version: number): void {
    this.#version = version;
    this.#announced = Math.max(this.#announced, position);
    this.#turnSoon();
  }

  /** An unknown number of announcements may have been missed. */
  missed(version: number): void {
    this.#version = version;
    this.#unsure = version;
    this.#turnSoon();
  }

  /** Whether a reader that has seen everything up to a position has to look again. @param since version of its last look */
  isNews(after: number, since: number): boolean {
    return this.#version > since && (this.#announced > after || this.#unsure > since);
  }

  /** Whether readers have just had their turn, so that the next one is gathered for. */
  get isBusy(): boolean {
    return performance.now() < this.#turnAt + this.#pauseMs;
  }

  /** Takes note that nothing was behind a place. @param since version from before the look */
  noteEnd(place: number | null, end: number, since: number): void {
    if (since !== this.#version) return;
    if (!this.knowsEnd) this.#end = { places: new Map(), version: since };
    // There are no more than these two: the end, and the beginning of a feed that holds nothing.
    if (place === null || place === end) this.#end?.places.set(place, end);
  }

  /** The position behind which the feed goes on after a place behind which nothing is, as far as was heard; else undefined. */
  endBehind(place: number | null): number | undefined {
    return this.knowsEnd ? this.#end?.places.get(place) : undefined;
  }

  /** Has a reader wait for a turn that concerns it. */
  wait(reader: WaitingReader): void {
    this.#waiting.add(reader);
    if (this.#concerns(reader)) this.#turnSoon();
  }

  /** Has a reader wait no longer. */
  leave(reader: WaitingReader): void {
    this.#waiting.delete(reader);
  }

  /** Ends what it has planned. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  get #pauseMs(): number {
    return Math.min(LONGEST_PAUSE_MS, this.watchers * PAUSE_OF_A_READER_MS);
  }

  #concerns({ seen }: WaitingReader): boolean {
    return seen === undefined || this.isNews(seen.after, seen.since);
  }

  #turnSoon(): void {
    if (this.#timer !== undefined || this.#waiting.size === 0) return;
    const inMs = this.#turnAt + this.#pauseMs - performance.now();
    if (inMs <= 0) this.#turn();
    else this.#timer = setTimeout(() => this.#turn(), Math.ceil(inMs));
  }

  #turn(): void {
    this.close();
    for (const reader of this.#waiting) {
      if (!this.#concerns(reader)) continue;
      this.#turnAt = performance.now();
      reader.wake();
    }
  }
}
