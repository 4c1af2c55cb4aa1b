import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import {
  AllowUnknownFields,
  IsJsonInteger,
  IsText,
  IsTextList,
  NestedList,
  OptionalField,
  SHOWN_TEXT,
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
  @IsTextList({ max: 128, ...SHOWN_TEXT }, { max: 100 })
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

const ENGINE_NAME = /^[a-z0-9-]{1,64}$/;

/** Sums over all workers stay exact. */
const MOST_JOBS = 2 ** 31 - 1;

@ApiSchema({
  name: 'EngineJobsInput',
  description: 'The jobs of a launcher, as its engine lists them. Unknown fields are ignored.',
})
@AllowUnknownFields()
export class EngineJobsInputDto {
  /** Name of the engine. @example kubernetes */
  @IsText({ min: 1, max: 64, pattern: ENGINE_NAME, form: 'a name of a-z, 0-9 and -' })
  name: string;

  /** Jobs whose container does not run yet. @example 3 */
  @IsJsonInteger({ min: 0, max: MOST_JOBS }) pending: number;

  /** Jobs whose container runs. @example 12 */
  @IsJsonInteger({ min: 0, max: MOST_JOBS }) running: number;
}

@ApiSchema({
  name: 'ContainerEngineInput',
  description: 'The container engine of a worker. Unknown fields are ignored.',
})
@AllowUnknownFields()
export class ContainerEngineInputDto {
  /** @example docker */
  @IsText({ min: 1, max: 128, ...SHOWN_TEXT }) name: string;

  /** @example 20.10.24+dfsg1 */
  @IsText({ max: 128, ...SHOWN_TEXT }) version: string;

  /** The OCI runtime that containers get. @example runc */
  @IsText({ min: 1, max: 128, ...SHOWN_TEXT }) runtime: string;

  /** Absent: the engine does not tell it. @example 1.1.5+ds1 */
  @OptionalField()
  @IsText({ max: 128, ...SHOWN_TEXT })
  runtime_version?: string;
}

@ApiSchema({ name: 'ContainerEngine', description: 'The container engine of a worker.' })
export class ContainerEngineDto {
  /** @example docker */
  name: string;
  /** @example 20.10.24+dfsg1 */
  version: string;
  /** The OCI runtime that containers get. @example runc */
  runtime: string;
  /** Null: the engine does not tell it. @example 1.1.5+ds1 */
  @ApiProperty({ type: 'string', nullable: true }) runtime_version: string | null;
}

/** The engine without what else the object has: a body may have unknown fields. */
export function toContainerEngineDto(engine: ContainerEngineInputDto): ContainerEngineDto {
  const { name, version, runtime, runtime_version: runtimeVersion } = engine;
  return { name, version, runtime, runtime_version: runtimeVersion ?? null };
}

@ApiSchema({ name: 'EngineJobs', description: 'The jobs of a launcher, as its engine lists them.' })
export class EngineJobsDto {
  /** Name of the engine. @example kubernetes */
  name: string;
  /** Jobs whose container does not run yet. @example 3 */
  @ApiProperty({ type: 'integer' }) pending: number;
  /** Jobs whose container runs. @example 12 */
  @ApiProperty({ type: 'integer' }) running: number;
}

@ApiSchema({ name: 'EngineUse', description: 'The jobs of all active launchers with one kind of engine.' })
export class EngineUseDto extends EngineJobsDto {
  /** How many launchers; draining ones count. @example 2 */
  @ApiProperty({ type: 'integer' }) launchers: number;
}
