import { Inject, Injectable } from '@nestjs/common';
import { retryWhileUnavailable } from '../database/unavailable.js';
import type { TopicWatch } from '../common/notifications/topic-watch.js';
import { Settings } from '../config/settings.js';
import { FeedCursors } from './epochs/feed-cursors.js';
import { FEED_LIMITS, type FeedLimits } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedNotifications } from './feed-notifications.js';
import { FeedSlice } from './feed-slice.js';
import { FeedCursorGone, FeedNotConfigured } from './feed.errors.js';
import { FeedReader } from './feed.reader.js';
import type { FeedRange } from './feed.repository.js';

/** Which feed, and where in it. */
export interface FeedPlace {
  readonly topic: string;
  /** Cursor; undefined for the oldest event that is kept. */
  readonly after?: string | undefined;
}

/** Where a stream goes to. */
export interface FeedSink {
  /** Called once, when nothing stands in the way of the stream. */
  begin(): void;
  /** Resolves when the reader is ready for more. */
  send(slice: FeedSlice): Promise<void>;
}

/**
 * Reading feeds: pages, long polls and streams. Every method throws FeedNotConfigured while the feed is switched off,
 * FeedCursorInvalid, FeedCursorGone and FeedCursorLost for a cursor that cannot be continued from.
 */
@Injectable()
export class FeedService {
  constructor(
    private readonly reader: FeedReader,
    private readonly cursors: FeedCursors,
    private readonly news: FeedNotifications,
    private readonly settings: Settings,
    @Inject(FEED_LIMITS) private readonly limits: FeedLimits,
    private readonly metrics: FeedMetrics,
  ) {}

  /** What is there now, which may be nothing. */
  async getPage(place: FeedPlace, limit: number): Promise<FeedSlice> {
    return this.reader.read(await this.#range(place, limit, this.limits.pageBytes));
  }

  /** The cursor that so many of the newest events follow, or all that are kept when there are fewer. */
  async getCursor(topic: string, back: number): Promise<string> {
    this.#demandFeed();
    return this.cursors.of(topic)(await this.reader.positionBack(topic, back));
  }

  /** The same, but waits for an event when there is none, until the time is over or the signal aborts. */
  async awaitPage(place: FeedPlace, limit: number, forMs: number, signal: AbortSignal): Promise<FeedSlice> {
    const range = await this.#range(place, limit, this.limits.pageBytes);
    const deadline = performance.now() + forMs;
    const watch = this.news.watch(place.topic);
    try {
      await watch.turn({ signal, forMs });
      let { version } = watch;
      const end = watch.endBehind(range.after);
      let slice = end === undefined ? await this.reader.readNext(range) : FeedSlice.nothing(end);
      for (;;) {
        if (slice.events.length === 0) watch.noteEnd(range.after, slice.end, version);
        const left = deadline - performance.now();
        if (slice.events.length > 0 || left <= 0) return slice;
        if (!(await watch.news(slice.end, version, { signal, forMs: left }))) return slice;
        version = watch.version;
        slice = await this.reader.readShared({ ...range, after: slice.end }, version);
        this.#noteDelivery(slice);
      }
    } finally {
      watch.close();
    }
  }

  /**
   * Sends everything behind the place and then what is appended, in order and without a hole, until the signal aborts
   * or retention overtakes the reader. Outlasts the database being away.
   * @throws what stands in the way of beginning, before `begin` is called
   */
  async stream(place: FeedPlace, sink: FeedSink, signal: AbortSignal): Promise<void> {
    const { streamEvents, streamBytes } = this.limits;
    const range = await this.#range(place, streamEvents, streamBytes);
    const watch = this.news.watch(place.topic);
    try {
      let { version } = watch;
      let slice: FeedSlice | undefined = await this.reader.read(range);
      sink.begin();
      let hasCaughtUp = false;
      while (slice !== undefined && !signal.aborted) {
        if (slice.events.length > 0) await sink.send(slice);
        if (hasCaughtUp && !signal.aborted) this.#noteDelivery(slice);
        hasCaughtUp ||= !slice.hasMore;
        if (!slice.hasMore) await watch.news(slice.end, version, { signal });
        if (signal.aborted) return;
        version = watch.version;
        slice = await this.#goOn({ ...range, after: slice.end }, watch, signal);
      }
    } finally {
      watch.close();
    }
  }

  /** The next slice of an open stream; undefined when there will be none. */
  async #goOn(range: FeedRange, watch: TopicWatch, signal: AbortSignal): Promise<FeedSlice | undefined> {
    try {
      return await retryWhileUnavailable(
        () => this.reader.readShared(range, watch.version),
        this.limits,
        signal,
      );
    } catch (error) {
      if (error instanceof FeedCursorGone) return undefined;
      throw error;
    }
  }

  /** What a reader had to wait for; how old the events are that it catches up with says nothing about the service. */
  #noteDelivery({ events: [oldest] }: FeedSlice): void {
    if (oldest) this.metrics.noteDelivery(oldest.t);
  }

  async #range({ topic, after }: FeedPlace, limit: number, maxBytes: number): Promise<FeedRange> {
    this.#demandFeed();
    const position = after === undefined ? null : await this.cursors.positionOf(topic, after);
    return { topic, after: position, limit, maxBytes };
  }

  #demandFeed(): void {
    if (!this.settings.feedEnabled) throw new FeedNotConfigured();
  }
}
