import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsBoolean, IsIn, ValidateBy } from 'class-validator';
import {
  IsJsonInteger,
  IsText,
  NestedList,
  OptionalField,
} from '../../common/http/validation/dto-decorators.js';
import { readTimestamp } from '@longshore/common/json/read-timestamp';
import {
  LAST_LINE,
  LOG_STREAMS,
  MAX_TEXT_LENGTH,
  MAX_LINES_OF_A_CHUNK,
  MAX_BYTES,
  type LogLine,
  type LogStream,
} from '../log-line.js';
import { LOG_STREAM_SCHEMA } from './log-entry.dto.js';

@ApiSchema({ name: 'LogChunkLine', description: 'A log line, as a worker sends it.' })
export class LogChunkLineDto {
  /** When it was printed, ISO 8601 with a time zone; stored to the millisecond. @example 2026-01-02T03:04:05.678Z */
  @ValidateBy({
    name: 'isLogTime',
    validator: {
      validate: (value: unknown) => typeof value === 'string' && readTimestamp(value) !== null,
      defaultMessage: () => '$property must be an ISO 8601 date and time with its zone',
    },
  })
  @ApiProperty({ type: 'string', format: 'date-time' })
  t: string;

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
}

@ApiSchema({ name: 'LogPosition', description: 'The next chunk and line that the log expects.' })
export class LogPositionDto {
  /** Number of the next chunk. */
  @ApiProperty({ type: 'integer', minimum: 0, example: 4 })
  next_chunk: number;
  /** Number of the next line. */
  @ApiProperty({ type: 'integer', minimum: 0, example: 120 })
  next_line: number;
}

export function toLogLine({ t, stream, text, continued = false }: LogChunkLineDto): LogLine {
  return { t: readTimestamp(t)?.getTime() ?? 0, stream, text, continued };
}
