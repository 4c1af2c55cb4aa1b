import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import type { Usage } from '../overview/workers-summary.js';
import type { Supply } from './supply.js';

@ApiSchema({ name: 'SupplySum', description: 'The total and the free amount of a resource.' })
export class SupplySumDto {
  /** @example 64 */
  @ApiProperty({ type: 'integer' })
  total: number;
  /** @example 12 */
  @ApiProperty({ type: 'integer' })
  free: number;
}

@ApiSchema({
  name: 'SupplyWorkers',
  description: 'The number of workers: each is active, draining or stale.',
})
export class SupplyWorkersDto {
  /** Active, and taking runs. @example 4 */
  @ApiProperty({ type: 'integer' })
  active: number;
  /** Those of the active that hold no run, by the service's own record. @example 1 */
  @ApiProperty({ type: 'integer' })
  idle: number;
  /** Those of the active that are kept free for a run that waits for so much room. @example 0 */
  @ApiProperty({ type: 'integer' })
  reserved: number;
  /** Active, and kept from claiming by an admin. @example 0 */
  @ApiProperty({ type: 'integer' })
  draining: number;
  /** Silent for longer than the worker timeout. @example 0 */
  @ApiProperty({ type: 'integer' })
  stale: number;
}

@ApiSchema({ name: 'SupplySize', description: 'Active workers with the same hardware.' })
export class SupplySizeDto {
  /** @example 16 */
  @ApiProperty({ type: 'integer' })
  cpu_cores: number;
  /** @example 32000 */
  @ApiProperty({ type: 'integer' })
  ram_mb: number;
  /** Memory of each GPU in MB, the largest first. */
  @ApiProperty({ type: 'array', items: { type: 'integer' } })
  gpus: number[];
  /** How many workers. @example 4 */
  @ApiProperty({ type: 'integer' })
  workers: number;
  /** Those of them that hold no run. @example 1 */
  @ApiProperty({ type: 'integer' })
  idle: number;
}

@ApiSchema({ name: 'SupplyOther', description: 'The sum over the sizes that are not listed.' })
export class SupplyOtherDto {
  /** How many sizes. @example 2 */
  @ApiProperty({ type: 'integer' })
  sizes: number;
  /** How many workers. @example 2 */
  @ApiProperty({ type: 'integer' })
  workers: number;
  /** Those of them that hold no run. @example 1 */
  @ApiProperty({ type: 'integer' })
  idle: number;
}

@ApiSchema({
  name: 'Supply',
  description: 'The hardware of the workers; sums and sizes cover active workers that accept runs.',
})
export class SupplyDto {
  @ApiProperty({ type: SupplyWorkersDto })
  workers: SupplyWorkersDto;
  /** Cores. */
  @ApiProperty({ type: SupplySumDto })
  cpu: SupplySumDto;
  @ApiProperty({ type: SupplySumDto })
  ram_mb: SupplySumDto;
  /** Over all GPUs. */
  @ApiProperty({ type: SupplySumDto })
  vram_mb: SupplySumDto;
  /** GPUs; free are those of whose memory nothing is taken. */
  @ApiProperty({ type: SupplySumDto })
  gpus: SupplySumDto;
  /** The most frequent first; `limit` of them at most. */
  @ApiProperty({ type: [SupplySizeDto] })
  sizes: SupplySizeDto[];
  /** The sizes that are left out there; null when none is. */
  @ApiProperty({ type: SupplyOtherDto, nullable: true })
  other: SupplyOtherDto | null;
}

/** The supply as clients see it. @param limit sizes that are told one by one at most */
export function toSupplyDto(supply: Supply, limit: number): SupplyDto {
  const { active, idle, reserved, draining, stale, sizes } = supply;
  const rest = sizes.slice(limit);
  return {
    workers: { active, idle, reserved, draining, stale },
    cpu: toSumDto(supply.cpu),
    ram_mb: toSumDto(supply.ramMb),
    vram_mb: toSumDto(supply.vramMb),
    gpus: toSumDto(supply.gpus),
    sizes: sizes.slice(0, limit).map((size) => ({
      cpu_cores: size.cpuCores,
      ram_mb: size.ramMb,
      gpus: [...size.gpus],
      workers: size.workers,
      idle: size.idle,
    })),
    other:
      rest.length === 0
        ? null
        : {
            sizes: rest.length,
            workers: rest.reduce((sum, size) => sum + size.workers, 0),
            idle: rest.reduce((sum, size) => sum + size.idle, 0),
          },
  };
}

function toSumDto({ total, used }: Usage): SupplySumDto {
  return { total, free: total - used };
}
