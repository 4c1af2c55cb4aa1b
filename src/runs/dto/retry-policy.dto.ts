import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { IsJsonInteger } from '../../http/dto-decorators.js';

/** When a failed attempt is followed by another one without being asked. */
@ApiSchema({ name: 'RetryPolicyInput' })
export class RetryPolicyInputDto {
  /** Attempts that may fail before the run does; 1, the default, means no automatic retry. @example 3 */
  @IsOptional()
  @IsJsonInteger({ min: 1, max: 1000 })
  max_attempts?: number;
}

/** When a failed attempt is followed by another one without being asked. */
@ApiSchema({ name: 'RetryPolicy' })
export class RetryPolicyDto {
  /** Attempts that may fail before the run does. */
  @ApiProperty({ type: 'integer' })
  max_attempts: number;
}
