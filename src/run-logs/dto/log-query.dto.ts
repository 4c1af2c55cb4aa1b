import { ApiProperty } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { QueryInteger, QueryString } from '../../common/http/validation/dto-decorators.js';
import { MAX_ATTEMPTS_OF_A_RUN } from '../../runs/machine/run.js';

/** Which log of a run, and where in it: what every reader says. */
export class LogStreamQueryDto {
  /** Attempt whose log is read; without it that of the cursor, and without a cursor the current one. */
  @IsOptional()
  @QueryInteger({ min: 1, max: MAX_ATTEMPTS_OF_A_RUN })
  @ApiProperty({ required: false })
  attempt?: number;

  /** Only what is behind this cursor; without it from the first line. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ required: false, example: 'AAEAAAAAAHgAAAAAAAAV4AAAAABnK1yQ' })
  after?: string;
}

/** Query of a page of a log. */
export class LogPageQueryDto extends LogStreamQueryDto {
  /** Most lines of the page. */
  @IsOptional()
  @QueryInteger({ min: 1, max: 5000 })
  @ApiProperty({ required: false, default: 1000 })
  limit?: number;

  /** Seconds to hold an empty page while the log may still grow. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 30 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;

  /** Only lines whose text holds this, whatever the case. One answer searches a bounded stretch: go on while there is more. */
  @IsOptional()
  @QueryString({ min: 1, max: 1000 })
  @ApiProperty({ required: false, example: 'error' })
  contains?: string;

  /** The lines in front of this cursor, the nearest ones, instead of those behind one. */
  @IsOptional()
  @QueryString()
  @ApiProperty({ required: false })
  before?: string;

  /** The newest lines, so many of them, instead of those behind a cursor; with `contains` the newest that match. */
  @IsOptional()
  @QueryInteger({ min: 1, max: 5000 })
  @ApiProperty({ required: false })
  tail?: number;
}
