import { stringifyJson } from '@longshore/common/json/json-text';
import { toFeedEventDto, type FeedEventDto } from './dto/feed.dto.js';
import type { FeedEventRow } from './feed.repository.js';

/** Consecutive events of a topic's feed. Readers share one object, and with it its JSON. */
export class FeedSlice {
  /** Oldest first. */
  readonly events: readonly FeedEventDto[];
  /** Position behind which the feed continues. */
  readonly end: number;
  readonly #json: readonly string[];
  #page: string | undefined;
  #frames: Buffer | undefined;

  /**
   * @param start position behind which the slice was read
   * @param epoch token of the epoch in which its positions are valid
   */
  constructor(
    start: number,
    rows: readonly FeedEventRow[],
    readonly hasMore: boolean,
    toCursor: (position: number) => string,
    readonly epoch: string | null,
  ) {
    this.events = rows.map((row) => toFeedEventDto(row, toCursor(row.position)));
    this.end = rows.at(-1)?.position ?? start;
    this.#json = this.events.map((event) => stringifyJson(event));
  }

  static empty(end: number, epoch: string | null): FeedSlice {
    return new FeedSlice(end, [], false, () => '', epoch);
  }

  get page(): string {
    const next = this.events.at(-1)?.cursor ?? null;
    this.#page ??= `{"events":[${this.#json.join()}],"next_cursor":${JSON.stringify(next)},"has_more":${this.hasMore}}`;
    return this.#page;
  }

  /** The events in the format of Server-Sent Events. */
  get frames(): Buffer {
    this.#frames ??= Buffer.from(
      this.events.map((event, n) => `id: ${event.cursor}\ndata: ${this.#json[n]}\n\n`).join(''),
    );
    return this.#frames;
  }
}
