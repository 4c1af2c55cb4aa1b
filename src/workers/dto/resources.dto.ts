import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  AllowUnknownFields,
  IsJsonInteger,
  IsTextList,
  NestedList,
  OptionalField,
} from '../../common/http/validation/dto-decorators.js';

/** Runs keep the id of their GPU in 32 bits. */
const LARGEST_GPU_ID = 2 ** 31 - 1;

@ApiSchema({ name: 'GpuInput', description: 'A GPU of a worker. Unknown fields are ignored.' })
@AllowUnknownFields()
export class GpuInputDto {
  /** 0, 1, 2 ... */
  @IsJsonInteger({ min: 0, max: LARGEST_GPU_ID }) id: number;

  /** Memory in MB. */
  @IsJsonInteger({ min: 0 }) vram_mb: number;

  /** Labels such as the family. */
  @OptionalField()
  @IsTextList({ max: 128 }, { max: 100 })
  tags?: string[];
}

@ApiSchema({ name: 'ResourcesInput', description: 'The hardware of a worker. Unknown fields are ignored.' })
@AllowUnknownFields()
export class ResourcesInputDto {
  @IsJsonInteger({ min: 0 }) cpu_cores: number;

  /** RAM in MB. */
  @IsJsonInteger({ min: 0 }) ram_mb: number;

  @NestedList(() => GpuInputDto, { max: 64 }) gpus: GpuInputDto[];
}

@ApiSchema({ name: 'Gpu', description: 'A GPU of a worker.' })
export class GpuDto {
  /** 0, 1, 2 ... */
  @ApiProperty({ type: 'integer' }) id: number;
  /** Memory in MB. */
  @ApiProperty({ type: 'integer' }) vram_mb: number;
  tags: string[];
}

@ApiSchema({ name: 'Resources', description: 'The hardware of a worker.' })
export class ResourcesDto {
  @ApiProperty({ type: 'integer' }) cpu_cores: number;
  /** RAM in MB. */
  @ApiProperty({ type: 'integer' }) ram_mb: number;
  gpus: GpuDto[];
}

@ApiSchema({ name: 'FreeGpu', description: 'The free memory of a GPU.' })
export class FreeGpuDto {
  /** 0, 1, 2 ... */
  @ApiProperty({ type: 'integer' }) id: number;
  /** Memory in MB. Runs without an assigned GPU count on every GPU. */
  @ApiProperty({ type: 'integer' }) vram_mb: number;
}

@ApiSchema({
  name: 'FreeResources',
  description: 'The resources of a worker that its runs in execution do not use.',
})
export class FreeResourcesDto {
  /** Whole cores. */
  @ApiProperty({ type: 'integer' }) cpu_cores: number;
  /** Thousandths of cores. */
  @ApiProperty({ type: 'integer' }) cpu_millis: number;
  /** RAM in MB. */
  @ApiProperty({ type: 'integer' }) ram_mb: number;
  @ApiProperty({ type: [FreeGpuDto] }) gpus: FreeGpuDto[];
}
