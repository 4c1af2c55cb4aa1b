import { ApiProperty } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { QueryInteger, QueryString } from '../../common/http/validation/query-decorators.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../../runs/machine/run.js';

export class LogStreamQueryDto {
  /** Attempt of the log; by default that of the cursor, or else the current one. */
  @IsOptional()
  @QueryInteger({ min: 1, max: MAX_ATTEMPTS_OF_A_RUN })
  @ApiProperty({ required: false })
  attempt?: number;

  /** Only lines after this cursor; by default from the first line. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ required: false, example: 'AAEAAAAAAHgAAAAAAAAV4AAAAABnK1yQ' })
  after?: string;
}

export class LogPageQueryDto extends LogStreamQueryDto {
  /** Most lines of the page; the pieces of a line count as one, up to 1,000. A page ends after 5,000 pieces. */
  @IsOptional()
  @QueryInteger({ min: 1, max: 5000 })
  @ApiProperty({ required: false, default: 1000 })
  limit?: number;

  /** Seconds to wait for lines before an empty page, while the log may grow. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 30 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;

  /** Only lines that contain this text, ignoring case. A response searches a bounded part of the log: continue while it has more. */
  @IsOptional()
  @QueryString({ min: 1, max: 1000 })
  @ApiProperty({ required: false, example: 'error' })
  contains?: string;

  /** Only the lines directly before this cursor. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ required: false })
  before?: string;

  /** Number of newest lines to read, counted as for `limit`; with `contains`, of the newest that match. */
  @IsOptional()
  @QueryInteger({ min: 1, max: 5000 })
  @ApiProperty({ required: false })
  tail?: number;
}
