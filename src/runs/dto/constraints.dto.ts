import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { IsJsonInteger } from '../../http/dto-decorators.js';

const INT32_MAX = 2 ** 31 - 1;

/** What a run asks of the hardware; what is left out is 0, which means no requirement and no limit. */
@ApiSchema({ name: 'ConstraintsInput' })
export class ConstraintsInputDto {
  /** RAM in MB. @example 256 */
  @IsOptional()
  @IsJsonInteger({ min: 0, max: INT32_MAX })
  ram_mb?: number;

  /** GPU memory in MB. @example 0 */
  @IsOptional()
  @IsJsonInteger({ min: 0, max: INT32_MAX })
  vram_mb?: number;

  /** CPUs. @example 1 */
  @IsOptional()
  @IsJsonInteger({ min: 0, max: INT32_MAX })
  cpu?: number;

  /** Accepted and ignored: the scheduler chooses the GPU. */
  @IsOptional()
  @IsJsonInteger()
  gpu_id?: number | null;
}

/** What a run asks of the hardware, and the GPU it was given. */
@ApiSchema({ name: 'Constraints' })
export class ConstraintsDto {
  /** RAM in MB; 0: no requirement, no limit. */
  @ApiProperty({ type: 'integer' })
  ram_mb: number;
  /** GPU memory in MB; 0: no requirement. */
  @ApiProperty({ type: 'integer' })
  vram_mb: number;
  /** CPUs; 0: no requirement, no limit. */
  @ApiProperty({ type: 'integer' })
  cpu: number;
  /** GPU that the current attempt uses. */
  @ApiProperty({ type: 'integer', nullable: true })
  gpu_id: number | null;
}
