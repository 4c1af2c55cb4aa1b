import { ApiProperty } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { QueryInteger } from '../../common/http/validation/query-decorators.js';

/** Shapes of runs, and sizes of workers, that are told one by one unless asked otherwise. */
export const DEFAULT_SHAPES = 100;

/** Query of GET /capacity. */
export class CapacityQueryDto {
  /** Shapes of runs, and sizes of workers, that are told one by one at most; the others are taken together. */
  @IsOptional()
  @QueryInteger({ min: 1, max: 500 })
  @ApiProperty({ required: false, default: DEFAULT_SHAPES })
  limit?: number;
}
