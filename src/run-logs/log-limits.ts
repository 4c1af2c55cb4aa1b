/** What logs may cost one process. */
export interface LogLimits {
  /** Open streams and waiting polls together. */
  readonly maxReaders: number;
  /** Readers that fetch and unpack lines at the same time; the rest of the connections is for everybody else. */
  readonly maxReading: number;
  /** Chunks that are packed and stored at the same time. */
  readonly maxWriting: number;
  /** Text of the chunks that wait for their turn, in bytes; above it chunks are refused until some are stored. */
  readonly maxWaitingBytes: number;
  /** Text that a page holds at most, in bytes; one line at least. */
  readonly pageBytes: number;
  /** Text that is searched for one page, in bytes. */
  readonly scanBytes: number;
  /** Lines written to a stream at once. */
  readonly streamLines: number;
  /** The same in bytes of text: what a slow reader has buffered at most, one line at least. */
  readonly streamBytes: number;
  /** A stream that takes nothing of what is buffered for this long is cut off. */
  readonly stallMs: number;
  /** Time between two comments on a stream. */
  readonly commentMs: number;
  /** First pause after the database failed an open stream; it doubles up to the longest. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
  /** A log of an attempt that has ended counts as complete when nothing was added for this long, last chunk or not. */
  readonly silenceMs: number;
}

/** Injection token of the limits. */
export const LOG_LIMITS = Symbol('LOG_LIMITS');

/** The limits of the service. */
export const USUAL_LOG_LIMITS: LogLimits = {
  maxReaders: 5_000,
  maxReading: 3,
  maxWriting: 3,
  maxWaitingBytes: 32 * 1024 * 1024,
  pageBytes: 4 * 1024 * 1024,
  scanBytes: 16 * 1024 * 1024,
  streamLines: 1_000,
  streamBytes: 256 * 1024,
  stallMs: 60_000,
  commentMs: 15_000,
  retryMs: 500,
  longestRetryMs: 10_000,
  silenceMs: 60_000,
};
