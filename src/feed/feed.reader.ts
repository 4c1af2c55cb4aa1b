import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Semaphore } from '../database/semaphore.js';
import { FeedCursors } from './epochs/feed-cursors.js';
import { FEED_LIMITS, type FeedLimits } from './feed-limits.js';
import { FeedMetrics } from './feed-metrics.js';
import { FeedSlice } from './feed-slice.js';
import { FeedCursorGone, FeedCursorInvalid } from './feed.errors.js';
import { FeedRepository, type FeedRange } from './feed.repository.js';

/** Reads stretches of feeds, a bounded number at a time. */
@Injectable()
export class FeedReader {
  readonly #shared = new Map<string, Promise<FeedSlice>>();
  readonly #next = new Map<string, Promise<FeedSlice>>();
  readonly #underWay = new Map<string, Promise<unknown>>();
  readonly #turns: Semaphore;

  constructor(
    private readonly dataSource: DataSource,
    private readonly repository: FeedRepository,
    private readonly metrics: FeedMetrics,
    private readonly cursors: FeedCursors,
    @Inject(FEED_LIMITS) { maxQueries }: FeedLimits,
  ) {
    this.#turns = new Semaphore(maxQueries);
  }

  /** The position that so many of the newest entries follow, or all that are kept when there are fewer. */
  async positionBack(topic: string, back: number): Promise<number> {
    const { first, last } = await this.#turns.take(() => {
      this.metrics.countQuery();
      return this.repository.findBounds(this.dataSource, topic);
    });
    return Math.max(first - 1, last - back);
  }

  /**
   * Reads what is there now.
   * @throws FeedCursorInvalid for a position that the feed has not come to, FeedCursorGone for one that retention has
   * overtaken
   */
  async read(range: FeedRange): Promise<FeedSlice> {
    const { topic, after } = range;
    const found = await this.#query(range);
    const start = after ?? found.first - 1;
    if (start > found.last) throw new FeedCursorInvalid('The cursor is ahead of the feed');
    if (start < found.first - 1) throw new FeedCursorGone(this.cursors.of(topic)(found.first - 1));
    return new FeedSlice(start, found, this.cursors.of(topic));
  }

  /**
   * The same for readers of one place that come at about the same time: who comes while a query is under way shares
   * the next one, so that each sees what was acknowledged before it asked.
   */
  readNext(range: FeedRange): Promise<FeedSlice> {
    const key = [range.after, range.limit, range.maxBytes, range.topic].join(' ');
    const known = this.#next.get(key);
    if (known !== undefined) return known;
    const turn = this.#underWay.get(key) ?? Promise.resolve();
    const reading = turn.then(() => {
      this.#next.delete(key);
      const begun = this.read(range);
      const over = begun.then(
        () => this.#underWay.delete(key),
        () => this.#underWay.delete(key),
      );
      this.#underWay.set(key, over);
      return begun;
    });
    this.#next.set(key, reading);
    return reading;
  }

  /**
   * The same for readers that were woken: those of one version of the news share one query.
   * @param version of the topic's news, unchanged since it woke the reader
   */
  readShared(range: FeedRange, version: number): Promise<FeedSlice> {
    const key = [version, range.after, range.limit, range.maxBytes, range.topic].join(' ');
    const known = this.#shared.get(key);
    if (known !== undefined) return known;
    const reading = this.read(range).finally(() => this.#shared.delete(key));
    this.#shared.set(key, reading);
    return reading;
  }

  #query(range: FeedRange): ReturnType<FeedRepository['list']> {
    return this.#turns.take(() => {
      this.metrics.countQuery();
      return this.repository.list(this.dataSource, range);
    });
  }
}
