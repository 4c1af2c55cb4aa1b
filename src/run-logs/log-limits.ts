import { READER_LIMITS } from '../common/http/server/bounded-readers.js';

/** What logs may cost one process. */
export const LOG_LIMITS = {
  ...READER_LIMITS,
  /** Readers that fetch and unpack lines at the same time; the other connections of the pool stay free. */
  maxReading: 3,
  /** Chunks that are packed and stored at the same time. */
  maxWriting: 3,
  /** Bytes of text of the chunks that wait to be stored; above it chunks are refused. */
  maxWaitingBytes: 32 * 1024 * 1024,
  /** Bytes of text that are searched for one page. */
  scanBytes: 16 * 1024 * 1024,
  /** Pieces of lines on one page; at least one line. */
  pagePieces: 5_000,
  /** Lines or pieces of lines written to a stream at once; at least one line. */
  streamLines: 1_000,
  /**
   * The log of an ended attempt is complete when nothing was added for this long, even without a last chunk; if its worker is
   * active, when nothing was added for `activeSilenceMs`.
   */
  silenceMs: 60_000,
  activeSilenceMs: 15 * 60_000,
} as const;
