/** What the readers of the feed may cost one process. */
export interface FeedLimits {
  /** Open streams and waiting polls together. */
  readonly maxReaders: number;
  /** Queries of readers under way at once; the rest of the connections is for everybody else. */
  readonly maxQueries: number;
  /** Text of messages and payloads in one page, in bytes; a page holds one event at least. */
  readonly pageBytes: number;
  /** Events written to a stream at once. */
  readonly streamEvents: number;
  /** The same in bytes of messages and payloads: what a slow reader has buffered at most, one event at least. */
  readonly streamBytes: number;
  /** A stream that takes nothing of what is buffered for this long is cut off. */
  readonly stallMs: number;
  /** Time between two comments on a stream. */
  readonly commentMs: number;
  /** First pause after the database failed an open stream; it doubles up to the longest. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
}

/** Injection token of the limits. */
export const FEED_LIMITS = Symbol('FEED_LIMITS');

/** The limits of the service. */
export const USUAL_FEED_LIMITS: FeedLimits = {
  maxReaders: 5_000,
  maxQueries: 4,
  pageBytes: 4 * 1024 * 1024,
  streamEvents: 500,
  streamBytes: 256 * 1024,
  stallMs: 60_000,
  commentMs: 15_000,
  retryMs: 500,
  longestRetryMs: 10_000,
};
