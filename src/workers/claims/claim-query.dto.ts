import { ApiProperty } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { QueryInteger } from '../../http/query-decorators.js';

/** Query of a claim. */
export class ClaimQueryDto {
  /** Seconds to hold an empty answer until there is work. */
  @IsOptional()
  @QueryInteger({ min: 0, max: 30 })
  @ApiProperty({ required: false, default: 0 })
  wait?: number;
}
