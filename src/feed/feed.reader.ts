import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { SharedReading } from '../common/shared-reading.js';
import { BatchedReads } from '../database/sql/batched-reads.js';
import { Semaphore } from '@longshore/common/semaphore';
import { FeedEntry, FeedSlice, type PageLimits } from './cache/feed-tail.js';
import { FeedTails } from './cache/feed-tails.js';
import { FeedCursors } from './feed-cursors.js';
import { FEED_LIMITS, type FeedLimits } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedCursorGone, FeedCursorInvalid, FeedCursorLost } from './feed.errors.js';
import { FeedRepository, UNUSED, type FeedBounds, type FeedRange } from './feed.repository.js';

/**
 * Reads slices of feeds from the cache, and from the database what is not cached, with a bounded number of queries at a
 * time. Readers share queries, each of which begins after all calls that it serves.
 */
@Injectable()
export class FeedReader {
  readonly #bounds: BatchedReads<string, FeedBounds>;
  /** Running queries that add to the cache, by topic. */
  readonly #extensions = new Map<string, Promise<void>>();
  readonly #slices = new Map<string, SharedReading<FeedSlice>>();
  readonly #semaphore: Semaphore;
  /** What one query adds to the cache for all readers of a topic. */
  readonly #added: PageLimits;

  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: FeedRepository,
    private readonly metrics: FeedMetrics,
    private readonly cursors: FeedCursors,
    private readonly tails: FeedTails,
    @Inject(FEED_LIMITS) { maxQueries, pageBytes, streamEvents }: FeedLimits,
  ) {
    this.#semaphore = new Semaphore(maxQueries);
    // Cheap, so they do not wait for the queries of events.
    this.#bounds = new BatchedReads((topics) => {
      this.metrics.queries.inc();
      return this.repository.findBounds(this.dataSource, topics);
    });
    this.#added = { limit: streamEvents, maxBytes: pageBytes };
  }

  /** The position in front of the newest entries; in front of all that are kept if there are fewer. */
  async positionBefore(topic: string, newest: number): Promise<number> {
    const { first, last } = await this.#findBounds(topic);
    return Math.max(first - 1, last - newest);
  }

  /**
   * Reads a slice that includes what was committed before the call, as far as its limits allow.
   * @throws FeedCursorInvalid beyond the end, FeedCursorGone where retention removed events, FeedCursorLost where a later
   * epoch did not keep the range's place
   */
  async read(range: FeedRange): Promise<FeedSlice> {
    const { topic, after } = range;
    const { epoch } = this.cursors;
    if (after !== null) await this.cursors.requirePosition(range.epoch, topic, after);
    const cached = this.tails.find(topic)?.to ?? 0;
    const bounds = await this.#findBounds(topic);
    // The query may have read the previous database.
    if (epoch !== this.cursors.epoch) return this.read(range);
    // The database was put back to an earlier state in a way that begins no epoch.
    if (bounds.last < cached) this.tails.forget(topic);
    return this.#serve(range, this.#startOf(range, bounds), bounds.last);
  }

  /**
   * Reads the slice after a position that a reader has come to, without a query if it is cached.
   * @param last a position up to which entries are known to be committed
   * @throws as `read`
   */
  async readNext(range: FeedRange & { readonly after: number }, last: number): Promise<FeedSlice> {
    await this.cursors.requirePosition(range.epoch, range.topic, range.after);
    return this.#serve(range, range.after, last);
  }

  /** Reads from the cache if it has the whole slice; else adds to the cache what follows it, or reads the range itself. */
  async #serve(range: FeedRange, start: number, last: number): Promise<FeedSlice> {
    const { topic, limit, maxBytes } = range;
    const { epoch } = this.cursors;
    const wanted = { topic, start, last, limit, maxBytes };
    const cached = this.tails.read(wanted);
    if (cached !== undefined && this.#isWhole(cached, range)) {
      this.metrics.cacheReads.inc({ result: 'hit' });
      return cached;
    }
    this.metrics.cacheReads.inc({ result: 'miss' });
    if (cached === undefined) return this.#query(range);
    // The first query may have begun before this call.
    for (const isSecond of [false, true]) {
      await this.#extendCache(topic);
      const extended = epoch === this.cursors.epoch ? this.tails.read(wanted) : undefined;
      if (extended === undefined) break;
      if (this.#isWhole(extended, range) || (isSecond && extended.entries.length > 0)) return extended;
    }
    return this.#query(range);
  }

  /** Whether nothing could be added to a slice of the cache, neither by its limits nor by a query. */
  #isWhole({ hasMore, entries, end }: FeedSlice, { topic, limit }: FeedRange): boolean {
    return !hasMore || entries.length === limit || end !== this.tails.find(topic)?.to;
  }

  /** Adds entries after the end of the cache, by one query at a time for each topic. */
  #extendCache(topic: string): Promise<void> {
    const running = this.#extensions.get(topic);
    if (running !== undefined) return running;
    const extension = this.#readBehindCache(topic).finally(() => this.#extensions.delete(topic));
    this.#extensions.set(topic, extension);
    return extension;
  }

  async #readBehindCache(topic: string): Promise<void> {
    const tail = this.tails.find(topic);
    if (tail === undefined) return;
    try {
      await this.#list({ topic, after: tail.to, epoch: this.cursors.epoch, ...this.#added });
    } catch (error) {
      // The place of the cache; the reader's own place may still be usable.
      const isOfCache = error instanceof FeedCursorGone || error instanceof FeedCursorLost;
      if (!isOfCache && !(error instanceof FeedCursorInvalid)) throw error;
    }
  }

  #query(range: FeedRange): Promise<FeedSlice> {
    const key = [range.after, range.epoch, range.limit, range.maxBytes, range.topic].join(' ');
    const onIdle = (): void => void this.#slices.delete(key);
    const slice = this.#slices.get(key) ?? new SharedReading(() => this.#list(range), { onIdle });
    this.#slices.set(key, slice);
    return slice.next();
  }

  /** Reads from the database and adds to the cache. */
  async #list(range: FeedRange): Promise<FeedSlice> {
    const { topic, after } = range;
    const { epoch } = this.cursors;
    if (after !== null) await this.cursors.requirePosition(range.epoch, topic, after);
    const {
      first,
      last,
      end,
      entries: found,
      hasMore,
    } = await this.#take(() => this.repository.list(this.dataSource, range));
    // The query may have read the previous database.
    if (epoch !== this.cursors.epoch) return this.#list(range);
    const start = this.#startOf(range, { first, last });
    const toCursor = this.cursors.of(topic);
    const entries = found.map((row) => new FeedEntry(row.position, row, toCursor));
    this.tails.add(epoch, topic, { from: start, to: end, entries }, last);
    if (entries.length === 0 && hasMore) return this.#list({ ...range, after: end, epoch });
    return new FeedSlice(end, entries, hasMore, last, epoch);
  }

  /** @throws FeedCursorInvalid, FeedCursorGone */
  #startOf({ topic, after }: FeedRange, { first, last }: FeedBounds): number {
    const start = after ?? first - 1;
    if (start > last) throw new FeedCursorInvalid('The cursor is ahead of the feed');
    if (start < first - 1) throw new FeedCursorGone(this.cursors.of(topic)(first - 1));
    return start;
  }

  async #findBounds(topic: string): Promise<FeedBounds> {
    return (await this.#bounds.load(topic)) ?? UNUSED;
  }

  #take<T>(query: () => Promise<T>): Promise<T> {
    return this.#semaphore.run(() => {
      this.metrics.queries.inc();
      return query();
    });
  }
}
