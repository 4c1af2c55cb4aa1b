import { READER_LIMITS, type ReaderLimits } from '../common/http/server/bounded-readers.js';

/** What logs may cost one process. */
export interface LogLimits extends ReaderLimits {
  /** Readers that fetch and unpack lines at the same time; the other connections of the pool stay free. */
  readonly maxReading: number;
  /** Chunks that are packed and stored at the same time. */
  readonly maxWriting: number;
  /** Bytes of text of the chunks that wait to be stored; above it chunks are refused. */
  readonly maxWaitingBytes: number;
  /** Bytes of text that are searched for one page. */
  readonly scanBytes: number;
  /** Pieces of lines on one page; at least one line. */
  readonly pagePieces: number;
  /** Lines or pieces of lines written to a stream at once; at least one line. */
  readonly streamLines: number;
  /**
   * The log of an ended attempt is complete when nothing was added for this long, even without a last chunk; if its worker is
   * active, when nothing was added for `activeSilenceMs`.
   */
  readonly silenceMs: number;
  readonly activeSilenceMs: number;
}

export const LOG_LIMITS = Symbol('LOG_LIMITS');

export const DEFAULT_LOG_LIMITS: LogLimits = {
  ...READER_LIMITS,
  maxReading: 3,
  maxWriting: 3,
  maxWaitingBytes: 32 * 1024 * 1024,
  scanBytes: 16 * 1024 * 1024,
  pagePieces: 5_000,
  streamLines: 1_000,
  silenceMs: 60_000,
  activeSilenceMs: 15 * 60_000,
};
