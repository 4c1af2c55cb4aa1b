import type { FeedEntry } from './feed-entry.js';

/** Consecutive events of a topic's feed. Readers share one object, and with it its JSON. */
export class FeedSlice {
  /** Estimated bytes of memory. */
  readonly memory: number;
  #page: Buffer | undefined;
  #frames: Buffer | undefined;

  /**
   * @param end position after which the feed continues; it may have no entry
   * @param entries oldest first
   * @param last position of the feed's newest entry, as far as it is known
   * @param epoch token of the epoch in which its positions are valid
   */
  constructor(
    readonly end: number,
    readonly entries: readonly FeedEntry[],
    readonly hasMore: boolean,
    readonly last: number,
    readonly epoch: string | null,
  ) {
    this.memory = entries.reduce((sum, { memory }) => sum + memory, 0);
  }

  static empty(end: number, epoch: string | null): FeedSlice {
    return new FeedSlice(end, [], false, end, epoch);
  }

  /** A FeedPage of the API as JSON; all readers at this place are sent the same bytes. */
  get page(): Buffer {
    this.#page ??= Buffer.from(this.#buildPage());
    return this.#page;
  }

  /** The events in the format of Server-Sent Events. */
  get frames(): Buffer {
    this.#frames ??= Buffer.from(
      this.entries.map(({ cursor, json }) => `id: ${cursor}\ndata: ${json}\n\n`).join(''),
    );
    return this.#frames;
  }

  #buildPage(): string {
    const next = this.entries.at(-1)?.cursor ?? null;
    const events = this.entries.map(({ json }) => json).join();
    return `{"events":[${events}],"next_cursor":${JSON.stringify(next)},"has_more":${this.hasMore}}`;
  }
}
