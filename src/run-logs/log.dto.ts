import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  LOG_STREAMS,
  type LogStream,
  LAST_LINE,
  MAX_TEXT_LENGTH,
  MAX_LINES_OF_A_CHUNK,
  MAX_BYTES,
  type LogLine,
} from './log-line.js';
import { IsBoolean, IsIn, ValidateBy } from 'class-validator';
import {
  IsJsonInteger,
  IsText,
  NestedList,
  OptionalField,
  SHOWN_TEXT,
} from '../common/http/validation/dto-decorators.js';
import { readInstant, UNIX_SECONDS } from '@longshore/common/json/read-timestamp';
import { QueryInteger, QueryString } from '../common/http/validation/query-decorators.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../runs/machine/run.js';

/** The named schema of a stream, wherever the API has one. */
const LOG_STREAM_SCHEMA = {
  enum: LOG_STREAMS,
  enumName: 'LogStream',
  enumSchema: { description: 'The stream that a line was printed to.' },
};

@ApiSchema({ name: 'LogLine', description: 'A log line.' })
export class LogLineDto {
  /** Continues the log after this line. */
  cursor: string;
  /** Number of the line, or of the piece of a line, within its attempt, from 0. */
  @ApiProperty({ type: 'integer', minimum: 0 })
  line: number;
  /** When it was printed, ISO 8601. */
  @ApiProperty({ type: 'string', format: 'date-time' })
  t: string;
  @ApiProperty(LOG_STREAM_SCHEMA)
  stream: LogStream;
  text: string;
  /** Present if it continues the line before it of the same stream, which was too long, or not finished for some time. */
  @ApiProperty({ type: 'boolean', enum: [true], required: false })
  continued?: true;
}

@ApiSchema({ name: 'LogGapSize', description: 'The size of a log gap.' })
export class LogGapSizeDto {
  @ApiProperty({ type: 'integer', minimum: 1 })
  lines: number;
  /** Bytes of text; null if unknown. */
  @ApiProperty({ type: 'integer', nullable: true, minimum: 0 })
  bytes: number | null;
}

@ApiSchema({ name: 'LogGap', description: 'Stands for log lines that are not stored.' })
export class LogGapDto {
  /** Continues the log after the gap. */
  cursor: string;
  /** Number of the first line that is missing. */
  @ApiProperty({ type: 'integer', minimum: 0 })
  line: number;
  @ApiProperty({ type: LogGapSizeDto })
  gap: LogGapSizeDto;
}

export type LogEntryDto = LogLineDto | LogGapDto;

@ApiSchema({ name: 'LogChunkLine', description: 'A log line, as a worker sends it.' })
export class LogChunkLineDto {
  /** When it was printed, ISO 8601 with a time zone, or UNIX seconds; stored to the millisecond. @example 2026-01-02T03:04:05.678Z */
  @ValidateBy({
    name: 'isLogTime',
    validator: {
      validate: (value: unknown) => readInstant(value) !== null,
      defaultMessage: () => '$property must be an ISO 8601 date and time with its zone, or UNIX seconds',
    },
  })
  @ApiProperty({
    oneOf: [
      { type: 'string', format: 'date-time' },
      { type: 'number', ...UNIX_SECONDS },
    ],
  })
  t: string | number;

  @IsIn(LOG_STREAMS)
  @ApiProperty(LOG_STREAM_SCHEMA)
  stream: LogStream;

  /** Without its line end; longer lines, and lines that are not finished for some time, are sent in pieces. */
  @IsText({ max: MAX_TEXT_LENGTH })
  text: string;

  /** True if it continues the line before it of the same stream, which was too long, or not finished for some time. */
  @OptionalField()
  @IsBoolean()
  @ApiProperty({ required: false, default: false })
  continued?: boolean;
}

@ApiSchema({
  name: 'LogChunk',
  description: 'Consecutive log lines, in the order in which the container printed them.',
})
export class LogChunkDto {
  /** Number of the first line, from 0. A number above the expected one leaves a gap before it. */
  @IsJsonInteger({ min: 0, max: LAST_LINE })
  first_line: number;

  /** Empty only with is_last. */
  @NestedList(() => LogChunkLineDto, { max: MAX_LINES_OF_A_CHUNK })
  @ApiProperty({ type: [LogChunkLineDto], maxItems: MAX_LINES_OF_A_CHUNK })
  lines: LogChunkLineDto[];

  /** True for the last chunk. */
  @OptionalField()
  @IsBoolean()
  @ApiProperty({ required: false, default: false })
  is_last?: boolean;

  /** Bytes of text of the lines missing before first_line; without it, their size is unknown. */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: MAX_BYTES })
  skipped_bytes?: number;

  /**
   * Where the worker's next process goes on after this chunk, in a form of the worker's own. It is given back to it alone, and is
   * not part of the log: no text of the log, which may have secrets.
   */
  @OptionalField()
  @IsText({ min: 1, max: 200, ...SHOWN_TEXT })
  cursor?: string;
}

@ApiSchema({ name: 'LogPosition', description: 'The next chunk and line that the log expects.' })
export class LogPositionDto {
  /** Number of the next chunk. */
  @ApiProperty({ type: 'integer', minimum: 0, example: 4 })
  next_chunk: number;
  /** Number of the next line. */
  @ApiProperty({ type: 'integer', minimum: 0, example: 120 })
  next_line: number;
  /** The cursor of the newest stored chunk that had one; absent: none had. */
  cursor?: string;
}

export function toLogLine({ t, stream, text, continued = false }: LogChunkLineDto): LogLine {
  return { t: readInstant(t)?.getTime() ?? 0, stream, text, continued };
}

export class LogStreamQueryDto {
  /** Attempt of the log; by default that of the cursor, or else the current one. */
  @QueryInteger({ min: 1, max: MAX_ATTEMPTS_OF_A_RUN })
  attempt?: number;

  /** Only lines after this cursor; by default from the first line. */
  @QueryString()
  @ApiProperty({ required: false, example: 'AAEAAAAAAHgAAAAAAAAV4AAAAABnK1yQ' })
  after?: string;
}

export class LogPageQueryDto extends LogStreamQueryDto {
  /** Most lines of the page; the pieces of a line count as one, up to 1,000. A page ends after 5,000 pieces. */
  @QueryInteger({ min: 1, max: 5000, default: 1000 })
  limit?: number;

  /** Seconds to wait for lines before an empty page, while the log may grow. */
  @QueryInteger({ min: 0, max: 30, default: 0 })
  wait?: number;

  /** Only lines that contain this text, ignoring case and escape sequences. A response searches a bounded part of the log: continue while it has more. */
  @QueryString({ min: 1, max: 1000 })
  @ApiProperty({ required: false, example: 'error' })
  contains?: string;

  /** Only the lines directly before this cursor. */
  @QueryString()
  before?: string;

  /** Number of newest lines to read, counted as for `limit`; with `contains`, of the newest that match. */
  @QueryInteger({ min: 1, max: 5000 })
  tail?: number;
}
