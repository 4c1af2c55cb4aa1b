import { Inject, Injectable } from '@nestjs/common';
import { LRUCache } from 'lru-cache';
import { ownText } from '@longshore/common/json/json-text';
import { FeedCursors } from '../feed-cursors.js';
import { FEED_LIMITS, type FeedLimits } from '../feed-limits.js';
import { FeedMetrics } from '../feed-metrics.js';
import {
  FeedEntry,
  type FeedEvent,
  FeedSlice,
  FeedTail,
  type FeedPart,
  type PageLimits,
} from './feed-tail.js';
import { monotonicMs } from '../../common/monotonic-ms.js';

/** The share of the cached bytes for JSON of whole pages. */
const SLICE_SHARE = 1 / 4;

/** Commits are not added to a topic that was not read for this time. */
const UNREAD_MS = 60_000;

/** The place and size of a slice to be read from the cache. */
export interface SliceRange extends PageLimits {
  readonly topic: string;
  /** Position after which it starts. */
  readonly start: number;
  /** Position of the newest entry, as far as the reader knows. */
  readonly last: number;
}

interface CachedTopic {
  /** Unlike that of any other: after a restore without an epoch, its positions may have other events than before. */
  readonly generation: number;
  readonly tail: FeedTail;
  readonly toCursor: (position: number) => string;
  readAt: number;
}

/**
 * A cache of the newest events of the feeds that are read in this process, filled by reads and by the commits of this
 * process. The least recently read topics are forgotten first. It holds committed events only and has no gaps; other
 * processes may have appended more. It is empty at the start of a feed epoch, in which positions may have other events.
 */
@Injectable()
export class FeedTails {
  /** Least recently read first. */
  readonly #topics = new Map<string, CachedTopic>();
  /** The last one of these. */
  #lastRead: string | undefined;
  /** By place in the feed, so that readers at one place share a slice and its JSON. */
  readonly #slices: LRUCache<string, FeedSlice>;
  #bytes = 0;
  #generations = 0;
  #epoch: string | null = null;

  constructor(
    @Inject(FeedCursors) private readonly cursors: Pick<FeedCursors, 'epoch' | 'of'>,
    private readonly metrics: FeedMetrics,
    @Inject(FEED_LIMITS) private readonly limits: Pick<FeedLimits, 'cacheBytes' | 'cacheTopicBytes'>,
  ) {
    const maxSize = Math.max(1, Math.floor(limits.cacheBytes * SLICE_SHARE));
    // The latest slice is kept even if it is larger than all of them may be.
    const sizeCalculation = ({ memory }: FeedSlice): number => Math.min(Math.max(1, memory), maxSize);
    this.#slices = new LRUCache({ maxSize, sizeCalculation });
  }

  /** Token of the current epoch. Read it before the query or transaction whose events are added. */
  get epoch(): string | null {
    return this.#followEpoch();
  }

  /** The positions between which all events of the topic are cached. */
  find(topic: string): Pick<FeedPart, 'from' | 'to'> | undefined {
    this.#followEpoch();
    return this.#topics.get(topic)?.tail;
  }

  /** The slice, which ends early where the cache ends; undefined if the cache does not reach back to its start. */
  read({ topic, start, last, limit, maxBytes }: SliceRange): FeedSlice | undefined {
    const epoch = this.#followEpoch();
    const cached = this.#topics.get(topic);
    const page = cached?.tail.page(start, { limit, maxBytes });
    if (cached === undefined || page === undefined) return undefined;
    cached.readAt = monotonicMs();
    if (topic !== this.#lastRead) {
      this.#topics.delete(topic);
      this.#topics.set(topic, cached);
      this.#lastRead = topic;
    }
    const newest = Math.max(last, cached.tail.to);
    const { to, entries } = page;
    const hasMore = to < newest;
    const make = (): FeedSlice => new FeedSlice(to, entries, hasMore, newest, epoch);
    if (entries.length === 0) return make();
    const key = [cached.generation, start, to, entries.length, hasMore].join(' ');
    const known = this.#slices.get(key);
    if (known !== undefined) return known;
    const slice = make();
    this.#slices.set(key, slice);
    this.#observe();
    return slice;
  }

  /**
   * Adds what was read from the database.
   * @param epoch from before the query
   * @param last position of the newest entry when it was read
   */
  add(epoch: string | null, topic: string, part: FeedPart, last: number): void {
    if (epoch !== this.#followEpoch()) return;
    const cached = this.#topics.get(topic);
    if (cached !== undefined && this.#merge(cached, part)) {
      this.#evict();
    } else if (part.to >= Math.max(last, cached?.tail.to ?? 0)) {
      this.forget(topic);
      const tail = new FeedTail(part, this.limits.cacheTopicBytes);
      this.#generations += 1;
      this.#lastRead = topic;
      this.#topics.set(topic, {
        generation: this.#generations,
        tail,
        toCursor: this.cursors.of(topic),
        readAt: monotonicMs(),
      });
      this.#bytes += tail.bytes;
      this.#evict();
    }
  }

  /**
   * Adds what this process has committed, to the topics that are cached.
   * @param epoch from before the transaction
   * @param heads by topic, the position of its last event
   * @param listEvents by topic, all these events in the order of their positions; without topics of unknown events
   */
  append(
    epoch: string | null,
    heads: ReadonlyMap<string, number>,
    listEvents: (topics: ReadonlySet<string>) => ReadonlyMap<string, readonly FeedEvent[]>,
  ): void {
    if (epoch !== this.#followEpoch()) return;
    const topics = new Set([...heads.keys()].filter((topic) => this.#isRead(topic)));
    if (topics.size === 0) return;
    for (const [topic, events] of listEvents(topics)) {
      const cached = this.#topics.get(topic);
      const to = heads.get(topic) ?? 0;
      const from = to - events.length;
      // If a commit in between is missing, the next read adds both.
      if (cached?.tail.to !== from) continue;
      const entries = events.map(
        (event, n) => new FeedEntry(from + n + 1, withOwnTexts(event), cached.toCursor),
      );
      this.#merge(cached, { from, to, entries });
    }
    this.#evict();
  }

  /** Forgets the events of a topic. */
  forget(topic: string): void {
    this.#bytes -= this.#topics.get(topic)?.tail.bytes ?? 0;
    this.#topics.delete(topic);
  }

  #followEpoch(): string | null {
    const { epoch } = this.cursors;
    if (epoch !== this.#epoch) {
      for (const topic of this.#topics.keys()) this.forget(topic);
      this.#slices.clear();
      this.#epoch = epoch;
    }
    return epoch;
  }

  /** Whether a topic is cached and still read; forgets it if not. */
  #isRead(topic: string): boolean {
    const cached = this.#topics.get(topic);
    if (cached === undefined) return false;
    if (monotonicMs() - cached.readAt < UNREAD_MS) return true;
    this.forget(topic);
    return false;
  }

  #merge({ tail }: CachedTopic, part: FeedPart): boolean {
    const before = tail.bytes;
    const isMerged = tail.merge(part);
    this.#bytes += tail.bytes - before;
    return isMerged;
  }

  /** Forgets topics until the others fit; keeps the one that was read last. */
  #evict(): void {
    for (const topic of this.#topics.keys()) {
      if (this.#bytes <= this.limits.cacheBytes * (1 - SLICE_SHARE) || this.#topics.size === 1) break;
      this.forget(topic);
    }
    this.#observe();
  }

  #observe(): void {
    this.metrics.cachedBytes.set(this.#bytes + this.#slices.calculatedSize);
  }
}

/** Payload, attributes and what describes the run may be parts of the body of a request. */
function withOwnTexts(event: FeedEvent): FeedEvent {
  const { payload, attributes, name, labels } = event;
  return {
    ...event,
    payload: ownText(payload),
    attributes: attributes && ownText(attributes),
    name: name && ownText(name),
    labels: labels && ownText(labels),
  };
}
