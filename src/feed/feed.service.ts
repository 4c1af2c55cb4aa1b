import { Inject, Injectable } from '@nestjs/common';
import type { EventStreamResponse } from '../common/http/server/bounded-readers.js';
import { CommitNotices } from '../database/notices/commit-notices.js';
import type { Topics } from '../database/notices/topics.js';
import { retryWhileUnavailable } from '../database/failover/unavailable.js';
import { FeedSlice } from './cache/feed-tail.js';
import type { FeedStreamQueryDto } from './feed.dto.js';
import { FeedCursors } from './feed-cursors.js';
import { FEED_LIMITS, type FeedLimits } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedCursorGone, FeedCursorLost } from './feed.errors.js';
import { FeedReader } from './feed.reader.js';
import type { FeedRange } from './feed.repository.js';
import { monotonicMs } from '../common/monotonic-ms.js';

/** Reads feeds. Every method throws FeedCursorInvalid, FeedCursorGone and FeedCursorLost for an unusable cursor. */
@Injectable()
export class FeedService {
  readonly #topics: Topics;

  constructor(
    private readonly reader: FeedReader,
    private readonly cursors: FeedCursors,
    notices: CommitNotices,
    private readonly metrics: FeedMetrics,
    @Inject(FEED_LIMITS) private readonly limits: FeedLimits,
  ) {
    this.#topics = notices.topicsOf('topics');
  }

  async getPage(place: FeedStreamQueryDto, limit: number): Promise<FeedSlice> {
    return this.reader.read(await this.#range(place, limit, this.limits.pageBytes));
  }

  /** The cursor in front of so many of the newest events. */
  async getCursor(topic: string, newest: number): Promise<string> {
    // Before the query: a position of an epoch that ends meanwhile must not get a cursor of the next.
    const toCursor = this.cursors.of(topic);
    return toCursor(await this.reader.positionBefore(topic, newest));
  }

  /** Reads a page, and waits for an event while it is empty, until the time is over or the signal aborts. */
  async awaitPage(
    place: FeedStreamQueryDto,
    limit: number,
    forMs: number,
    signal: AbortSignal,
  ): Promise<FeedSlice> {
    const range = await this.#range(place, limit, this.limits.pageBytes);
    const deadline = monotonicMs() + forMs;
    const topic = this.#topics.subscribe(place.topic);
    try {
      if (topic.endBehind(range.after) === undefined) await topic.waitForTurn(range.after, { signal, forMs });
      let { version } = topic;
      const end = topic.endBehind(range.after);
      let slice = end === undefined ? await this.reader.read(range) : FeedSlice.empty(end, range.epoch);
      for (;;) {
        if (slice.entries.length > 0) return slice;
        topic.noteEnd(range.after, slice.end, version);
        const left = deadline - monotonicMs();
        if (left <= 0) return slice;
        if (!(await topic.waitForChange(slice.end, version, { signal, forMs: left }))) return slice;
        const last = topic.announcedSince(version);
        ({ version } = topic);
        slice = await this.#readNext(range, slice, last);
        this.#observeDelivery(slice);
      }
    } finally {
      this.#topics.unsubscribe(topic);
    }
  }

  /**
   * Sends all events after the place and then every new one, until the signal aborts, retention overtakes the reader, or
   * the database loses what it has read. Retries while the database is unavailable. Errors before `stream.begin()` can still be answered.
   */
  async stream(place: FeedStreamQueryDto, stream: EventStreamResponse, signal: AbortSignal): Promise<void> {
    const { streamEvents, streamBytes } = this.limits;
    const range = await this.#range(place, streamEvents, streamBytes);
    const topic = this.#topics.subscribe(place.topic);
    try {
      let { version } = topic;
      let slice: FeedSlice | undefined = await this.reader.read(range);
      stream.begin();
      let hasCaughtUp = false;
      while (slice !== undefined && !signal.aborted) {
        if (slice.entries.length > 0) await stream.send(slice.frames);
        if (hasCaughtUp && !signal.aborted) this.#observeDelivery(slice);
        hasCaughtUp ||= !slice.hasMore;
        if (!slice.hasMore) await topic.waitForChange(slice.end, version, { signal });
        if (signal.aborted) return;
        const last = topic.announcedSince(version);
        ({ version } = topic);
        slice = await this.#continueStream(range, slice, last, signal);
      }
    } finally {
      this.#topics.unsubscribe(topic);
    }
  }

  /** The next slice of an open stream; undefined to end the stream. */
  async #continueStream(
    range: FeedRange,
    slice: FeedSlice,
    last: number | undefined,
    signal: AbortSignal,
  ): Promise<FeedSlice | undefined> {
    try {
      return await retryWhileUnavailable(() => this.#readNext(range, slice, last), this.limits, signal);
    } catch (error) {
      if (error instanceof FeedCursorGone || error instanceof FeedCursorLost) return undefined;
      throw error;
    }
  }

  /** The slice after another one. @param last the newest announced position; undefined if announcements may be missing */
  #readNext(
    range: FeedRange,
    { end, epoch, last: known }: FeedSlice,
    last: number | undefined,
  ): Promise<FeedSlice> {
    const next = { ...range, after: end, epoch };
    return last === undefined ? this.reader.read(next) : this.reader.readNext(next, Math.max(known, last));
  }

  /** Only for readers that had caught up: the age of older events says nothing about the service. */
  #observeDelivery({ entries: [oldest] }: FeedSlice): void {
    if (oldest) this.metrics.observeDelivery(oldest.t);
  }

  async #range({ topic, after }: FeedStreamQueryDto, limit: number, maxBytes: number): Promise<FeedRange> {
    const place =
      after === undefined ? { position: null, epoch: this.cursors.epoch } : this.cursors.decode(topic, after);
    const { position, epoch } = place;
    if (position !== null) await this.cursors.requirePosition(epoch, topic, position);
    return { topic, after: position, epoch, limit, maxBytes };
  }
}
