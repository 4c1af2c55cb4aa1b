import { toFeedEventDto, type FeedEventDto } from './dto/feed-event.dto.js';
import type { FeedRows } from './feed.repository.js';

/** A stretch of a topic's feed as readers see it; one object may serve any number of them. */
export class FeedSlice {
  /** Oldest first. */
  readonly events: readonly FeedEventDto[];
  /** Position behind which the feed goes on. */
  readonly end: number;
  /** More events follow already. */
  readonly hasMore: boolean;
  readonly #texts: readonly string[];
  #frames: Buffer | undefined;
  #page: string | undefined;

  /**
   * @param start position that was read from, the end of a slice without events
   * @param cursorOf makes the topic's cursors
   */
  constructor(start: number, { entries, hasMore }: FeedRows, cursorOf: (position: number) => string) {
    this.events = entries.map((row) => toFeedEventDto(row, cursorOf(row.position)));
    this.end = entries.at(-1)?.position ?? start;
    this.hasMore = hasMore;
    this.#texts = this.events.map((event) => JSON.stringify(event));
  }

  /** Of a place behind which nothing is. @param end position behind which the feed will go on */
  static nothing(end: number): FeedSlice {
    return new FeedSlice(end, { first: 1, last: 0, entries: [], hasMore: false }, () => '');
  }

  /** The slice as a page, in JSON, made once for all readers. */
  get page(): string {
    const next = this.events.at(-1)?.cursor ?? null;
    this.#page ??= `{"events":[${this.#texts.join()}],"next_cursor":${JSON.stringify(next)},"has_more":${this.hasMore}}`;
    return this.#page;
  }

  /** The events in the format of Server-Sent Events, made once for all readers. */
  get frames(): Buffer {
    this.#frames ??= Buffer.from(
      this.events.map((event, n) => `id: ${event.cursor}\ndata: ${this.#texts[n]}\n\n`).join(''),
    );
    return this.#frames;
  }
}
