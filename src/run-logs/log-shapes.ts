/** Streams of a container. */
export const LOG_STREAMS = ['stdout', 'stderr'] as const;
export type LogStream = (typeof LOG_STREAMS)[number];

/** Lines of one chunk at most. */
export const MAX_LINES_OF_A_CHUNK = 5000;
/** Longest text of a line, in characters (code points). */
export const LONGEST_TEXT = 16_384;
/** Greatest number of a chunk. */
export const LAST_CHUNK = 2 ** 31 - 2;
/** Greatest number of a line, and most bytes that a log can tell of. */
export const LAST_LINE = 2 ** 40;
export const MOST_BYTES = 2 ** 50;

/** One line that a container printed, or a piece of a long one. */
export interface LogLine {
  /** Milliseconds since 1970. */
  readonly t: number;
  readonly stream: LogStream;
  readonly text: string;
  /** It goes on where the line before it of the same stream was cut. */
  readonly continued: boolean;
}
