import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsJsonInteger, OptionalField } from '../../../common/http/validation/dto-decorators.js';

const INT32_MAX = 2 ** 31 - 1;

@ApiSchema({
  name: 'ConstraintsInput',
  description: 'Hardware requirements of a run; an absent one is 0: no requirement and no limit.',
})
export class ConstraintsInputDto {
  /** RAM in MB. @example 256 */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: INT32_MAX })
  ram_mb?: number;

  /** GPU memory in MB. @example 0 */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: INT32_MAX })
  vram_mb?: number;

  /** CPUs. @example 1 */
  @OptionalField()
  @IsJsonInteger({ min: 0, max: INT32_MAX })
  cpu?: number;

  /** Accepted and ignored: the scheduler chooses the GPU. */
  @OptionalField()
  @IsJsonInteger()
  gpu_id?: number | null;
}

@ApiSchema({ name: 'Constraints', description: 'Hardware requirements of a run, and its GPU.' })
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
