import { READER_LIMITS } from '../common/http/server/bounded-readers.js';

export const FEED_LIMITS = Symbol('FEED_LIMITS');

/** Limits of the readers of feeds, per process. */
export const DEFAULT_FEED_LIMITS = {
  ...READER_LIMITS,
  /** Concurrent queries of readers; the other connections of the pool stay free. */
  maxQueries: 4,
  /** Events written to a stream at once. */
  streamEvents: 500,
  /** Bytes of cached events of all topics together. */
  cacheBytes: 32 * 1024 * 1024,
  /** Bytes of cached events of one topic; its newest event is cached whatever its size. */
  cacheTopicBytes: 4 * 1024 * 1024,
};
export type FeedLimits = Readonly<typeof DEFAULT_FEED_LIMITS>;
