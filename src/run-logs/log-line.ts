export const LOG_STREAMS = ['stdout', 'stderr'] as const;
export type LogStream = (typeof LOG_STREAMS)[number];

export const MAX_LINES_OF_A_CHUNK = 5000;
/** Longest text of a line, in characters (code points). */
export const MAX_TEXT_LENGTH = 16_384;
export const LAST_CHUNK = 2 ** 31 - 2;
export const LAST_LINE = 2 ** 40;
/** Highest number of bytes of text that a log counts. */
export const MAX_BYTES = 2 ** 50;

export interface LogLine {
  readonly t: number;
  readonly stream: LogStream;
  readonly text: string;
  /** It continues the line before it of the same stream. */
  readonly continued: boolean;
}

/** Consecutive lines that a worker sends in one request. */
export interface LogChunk {
  readonly firstLine: number;
  readonly lines: readonly LogLine[];
  readonly isLast: boolean;
  /** Bytes of text that the worker left out before the first line; null if not known. */
  readonly skippedBytes: number | null;
}
