import { ApiProperty } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { MAX_BULK_ITEMS } from '../../common/http/validation/bulk-items.js';
import { QueryInteger } from '../../common/http/validation/query-decorators.js';

/** Query of a claim. */
export class ClaimQueryDto {
  /** Seconds to hold an empty answer until there is work. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 30 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;

  /** Runs to be given at most; left out: as the strategy gives them to a claim, one by `direct`. */
  @IsOptional()
  @QueryInteger({ min: 1, max: MAX_BULK_ITEMS })
  @ApiProperty({ required: false })
  max?: number;
}
