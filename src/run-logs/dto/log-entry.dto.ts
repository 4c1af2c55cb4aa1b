import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { LOG_STREAMS, type LogStream } from '../log-line.js';

/** The named schema of a stream, wherever the API has one. */
export const LOG_STREAM_SCHEMA = {
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
