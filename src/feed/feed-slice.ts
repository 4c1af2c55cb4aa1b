import { toFeedEventDto, type FeedEventDto } from './dto/feed-event.dto.js';
import { cursorsOf } from './feed-cursor.js';
import type { FeedRows } from './feed.repository.js';

/** A stretch of a topic's feed as readers see it; one object may serve any number of them. */
export class FeedSlice {
  /** Oldest first. */
  readonly events: readonly FeedEventDto[];
  /** Position behind which the feed goes on. */
  readonly end: number;
  /** More events follow already. */
  readonly hasMore: boolean;
  #frames: Buffer | undefined;

  /** @param start position that was read from, the end of a slice without events */
  constructor(topic: string, start: number, { entries, hasMore }: FeedRows) {
    const cursorOf = cursorsOf(topic);
    this.events = entries.map((row) => toFeedEventDto(row, cursorOf(row.position)));
    this.end = entries.at(-1)?.position ?? start;
    this.hasMore = hasMore;
  }

  /** The events in the format of Server-Sent Events, made once for all readers. */
  get frames(): Buffer {
    this.#frames ??= Buffer.from(
      this.events.map((event) => `id: ${event.cursor}\ndata: ${JSON.stringify(event)}\n\n`).join(''),
    );
    return this.#frames;
  }
}
