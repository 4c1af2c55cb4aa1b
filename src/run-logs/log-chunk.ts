import type { LogLine } from './log-shapes.js';

/** What a worker sends at once. */
export interface LogChunk {
  readonly firstLine: number;
  readonly lines: readonly LogLine[];
  /** Nothing follows. */
  readonly isLast: boolean;
  /** Bytes of text left out before the first line; null where that is not known. */
  readonly skippedBytes: number | null;
}
