import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { READER_LIMITS, type ReaderLimits } from '../common/http/server/bounded-readers.js';
import { Semaphore } from '../database/semaphore.js';
import { FeedCursors } from './feed-cursors.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedSlice } from './feed-slice.js';
import { FeedCursorGone, FeedCursorInvalid } from './feed.errors.js';
import { FeedRepository, type FeedRange } from './feed.repository.js';

/** Limits of the readers of feeds, per process. */
export interface FeedLimits extends ReaderLimits {
  /** Concurrent queries of readers; the other connections of the pool stay free. */
  readonly maxQueries: number;
  /** Events written to a stream at once. */
  readonly streamEvents: number;
}

export const FEED_LIMITS = Symbol('FEED_LIMITS');

export const DEFAULT_FEED_LIMITS: FeedLimits = { ...READER_LIMITS, maxQueries: 4, streamEvents: 500 };

/** Reads slices of feeds, with a bounded number of queries at a time. */
@Injectable()
export class FeedReader {
  /** By range: the query that has not begun and can still be joined, and the end of the one that runs. */
  readonly #next = new Map<string, Promise<FeedSlice>>();
  readonly #running = new Map<string, Promise<unknown>>();
  readonly #semaphore: Semaphore;

  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: FeedRepository,
    private readonly metrics: FeedMetrics,
    private readonly cursors: FeedCursors,
    @Inject(FEED_LIMITS) { maxQueries }: FeedLimits,
  ) {
    this.#semaphore = new Semaphore(maxQueries);
  }

  /** The position in front of the newest entries; in front of all that are kept if there are fewer. */
  async positionBefore(topic: string, newest: number): Promise<number> {
    const { first, last } = await this.#query(() => this.repository.findBounds(this.dataSource, topic));
    return Math.max(first - 1, last - newest);
  }

  /**
   * Reads without waiting.
   * @throws FeedCursorInvalid behind the end, FeedCursorGone where retention removed events, FeedCursorLost where a later
   * epoch did not keep the range's place
   */
  async read(range: FeedRange): Promise<FeedSlice> {
    const { topic, after } = range;
    const { epoch } = this.cursors;
    if (after !== null) await this.cursors.requirePosition(range.epoch, topic, after);
    const found = await this.#query(() => this.repository.list(this.dataSource, range));
    // The query may have read the database of before.
    if (epoch !== this.cursors.epoch) return this.read(range);
    const start = after ?? found.first - 1;
    const toCursor = this.cursors.of(topic);
    if (start > found.last) throw new FeedCursorInvalid('The cursor is ahead of the feed');
    if (start < found.first - 1) throw new FeedCursorGone(toCursor(found.first - 1));
    return new FeedSlice(start, found.entries, found.hasMore, toCursor, epoch);
  }

  /** As `read`, with one query for all readers of a range: calls during a query share the next one. */
  readShared(range: FeedRange): Promise<FeedSlice> {
    const key = [range.after, range.epoch, range.limit, range.maxBytes, range.topic].join(' ');
    const next = this.#next.get(key);
    if (next !== undefined) return next;
    const running = this.#running.get(key) ?? Promise.resolve();
    const reading = running.then(() => {
      this.#next.delete(key);
      const begun = this.read(range);
      const done = begun.catch(() => undefined).then(() => this.#running.delete(key));
      this.#running.set(key, done);
      return begun;
    });
    this.#next.set(key, reading);
    return reading;
  }

  #query<T>(query: () => Promise<T>): Promise<T> {
    return this.#semaphore.take(() => {
      this.metrics.queries.inc();
      return query();
    });
  }
}
