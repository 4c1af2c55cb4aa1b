import { READER_LIMITS, type ReaderLimits } from '../common/http/server/bounded-readers.js';

/** Limits of the readers of feeds, per process. */
export interface FeedLimits extends ReaderLimits {
  /** Concurrent queries of readers; the other connections of the pool stay free. */
  readonly maxQueries: number;
  /** Events written to a stream at once. */
  readonly streamEvents: number;
  /** Bytes of cached events of all topics together. */
  readonly cacheBytes: number;
  /** Bytes of cached events of one topic; its newest event is cached whatever its size. */
  readonly cacheTopicBytes: number;
}

export const FEED_LIMITS = Symbol('FEED_LIMITS');

export const DEFAULT_FEED_LIMITS: FeedLimits = {
  ...READER_LIMITS,
  maxQueries: 4,
  streamEvents: 500,
  cacheBytes: 32 * 1024 * 1024,
  cacheTopicBytes: 4 * 1024 * 1024,
};
