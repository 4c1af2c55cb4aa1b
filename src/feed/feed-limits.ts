import { READER_LIMITS, type ReaderLimits } from '../common/http/server/bounded-readers.js';

/** What the readers of the feed may cost one process. */
export interface FeedLimits extends ReaderLimits {
  /** Queries of readers at the same time; the other connections of the pool stay free. */
  readonly maxQueries: number;
  /** Events written to a stream at once. */
  readonly streamEvents: number;
}

/** Injection token of {@link FeedLimits}. */
export const FEED_LIMITS = Symbol('FEED_LIMITS');

export const DEFAULT_FEED_LIMITS: FeedLimits = { ...READER_LIMITS, maxQueries: 4, streamEvents: 500 };
