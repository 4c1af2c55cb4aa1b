import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import { IsOptional } from 'class-validator';
import { QueryInteger, QueryString } from '../../common/http/validation/query-decorators.js';
import { EngineUseDto } from '../../workers/dto/resources.dto.js';
import { PendingByReasonDto } from '../reasons/pending-by-reason.dto.js';
import type { DemandSum, RunNumbers } from './demand.reader.js';

/** Default number of listed shapes and requirements of runs, and of sizes of workers. */
export const DEFAULT_SHAPES = 100;

/** Most that may be listed of each. */
export const MAX_LISTED = 500;

export class CapacityQueryDto {
  /** Most shapes and requirements of runs, and sizes of workers, that are listed; the others are added up. */
  @IsOptional()
  @QueryInteger({ min: 1, max: MAX_LISTED })
  @ApiProperty({ required: false, default: DEFAULT_SHAPES })
  limit?: number;
}

/** Workers that may be wanted, at most. */
export const MAX_WANTED = 100_000;

/** Cores, and MB, that a worker may have. */
const MAX_SIZE = 2 ** 31 - 1;

export class WantedQueryDto {
  /** The tags of such workers, all of them, separated by commas. @example gpu,eu */
  @IsOptional()
  @QueryString()
  selector?: string;

  /** Cores of such a worker; unless given, they limit nothing. @example 4 */
  @QueryInteger({ min: 1, max: MAX_SIZE })
  cpu?: number;

  /** RAM of such a worker in MB; unless given, it limits nothing. @example 8192 */
  @QueryInteger({ min: 1, max: MAX_SIZE })
  ram_mb?: number;

  /** Memory of its GPU in MB; 0, the default: it has none. */
  @QueryInteger({ min: 0, max: MAX_SIZE })
  vram_mb?: number;

  /** The least number of workers; 0 unless given. */
  @QueryInteger({ min: 0, max: MAX_WANTED })
  min?: number;

  /** The largest number of workers. @example 50 */
  @QueryInteger({ min: 0, max: MAX_WANTED })
  max?: number;
}

@ApiSchema({ name: 'WantedWorkers', description: 'How many workers of one kind there should be.' })
export class WantedWorkersDto {
  /** Those that there are included. @example 5 */
  @ApiProperty({ type: 'integer' }) wanted: number;
  /** The numbers behind it, for people. */
  because: string;
}

@ApiSchema({ name: 'DemandSum', description: 'The sum of the constraints of runs.' })
export class DemandSumDto {
  /** How many runs. @example 120 */
  @ApiProperty({ type: 'integer' }) runs: number;
  /** Cores, rounded up. @example 240 */
  @ApiProperty({ type: 'integer' }) cpu: number;
  /** Thousandths of cores. @example 240000 */
  @ApiProperty({ type: 'integer' }) cpu_millis: number;
  /** MB. @example 480000 */
  @ApiProperty({ type: 'integer' }) ram_mb: number;
  /** MB of GPU memory. @example 0 */
  @ApiProperty({ type: 'integer' }) vram_mb: number;
  /** GPUs: those that runs ask for, and one for each other run that needs GPU memory. @example 0 */
  @ApiProperty({ type: 'integer' }) gpus: number;
}

@ApiSchema({ name: 'DemandNumbers', description: 'The number of runs by progress.' })
export class DemandNumbersDto {
  /** Runs that are PENDING: `ready` and `waiting` together. @example 118 */
  @ApiProperty({ type: 'integer' }) pending: number;
  /** Those that may be claimed now. @example 110 */
  @ApiProperty({ type: 'integer' }) ready: number;
  /** Those that wait for the end of their back-off or for their `start_at`, or that a pause holds. @example 8 */
  @ApiProperty({ type: 'integer' }) waiting: number;
  /** Runs that are ASSIGNED or RUNNING. @example 2 */
  @ApiProperty({ type: 'integer' }) in_execution: number;
}

@ApiSchema({ name: 'DemandShape', description: 'Runs with the same constraints; 0 means no requirement.' })
export class DemandShapeDto extends DemandNumbersDto {
  /** CPUs, rounded up. @example 2 */
  @ApiProperty({ type: 'integer' }) cpu: number;
  /** Thousandths of a core. @example 2000 */
  @ApiProperty({ type: 'integer' }) cpu_millis: number;
  /** RAM in MB. @example 4000 */
  @ApiProperty({ type: 'integer' }) ram_mb: number;
  /** GPU memory in MB: on one GPU, or on each of `gpus`. @example 0 */
  @ApiProperty({ type: 'integer' }) vram_mb: number;
  /** Whole GPUs; 0: a share of one, by its memory. @example 0 */
  @ApiProperty({ type: 'integer' }) gpus: number;
  /**
   * Whether any worker that accepts runs could execute such a run when idle, whatever its tags and capabilities; null: no
   * such worker, or unknown.
   */
  @ApiProperty({ type: 'boolean', nullable: true, example: true }) placeable: boolean | null;
  /** How many of the ready runs fit the free resources if no other shape is queued; null as for `placeable`. */
  @ApiProperty({ type: 'integer', nullable: true, example: 3 }) can_start_now: number | null;
}

@ApiSchema({ name: 'DemandSelector', description: 'Runs that require the same of a worker.' })
export class DemandSelectorDto {
  /** Tags that the worker must have. */
  @ApiProperty({ type: [String], example: ['gpu', 'eu'] }) selector: string[];
  /** Capabilities that it must announce. */
  @ApiProperty({ type: [String], example: ['env'] }) capabilities: string[];
  /** Tags that its GPUs must have. */
  @ApiProperty({ type: [String], example: ['a100'] }) gpu_selector: string[];
  /** GPUs that it must have at all, in use or not; 0: a share of the memory of one decides nothing here. */
  @ApiProperty({ type: 'integer', example: 2 }) gpus: number;
  /** Memory in MB that each of `gpus` must have. */
  @ApiProperty({ type: 'integer', example: 40_000 }) gpu_vram_mb: number;
  /** What no worker that accepts runs has of it, in words; null: some worker has all. */
  @ApiProperty({ type: 'string', nullable: true, example: "no active worker offers the volume 'datasets'" })
  lacking: string | null;
  /** All that are PENDING: `ready` and `waiting` together. */
  @ApiProperty({ type: DemandSumDto }) pending: DemandSumDto;
  /** Those that wait for a worker or for runs of their concurrency key. */
  @ApiProperty({ type: DemandSumDto }) ready: DemandSumDto;
  /** Those that wait for the end of their back-off or for their `start_at`, or that a pause holds. */
  @ApiProperty({ type: DemandSumDto }) waiting: DemandSumDto;
  /** Runs that are ASSIGNED or RUNNING. */
  @ApiProperty({ type: DemandSumDto }) in_execution: DemandSumDto;
  /** How many of the ready runs wait for other runs of their concurrency key: more workers do not start them. @example 0 */
  @ApiProperty({ type: 'integer' }) held_back: number;
  /** Workers that accept runs and have the tags and capabilities. @example 4 */
  @ApiProperty({ type: 'integer' }) workers: number;
  /** Workers of them without assigned runs. @example 1 */
  @ApiProperty({ type: 'integer' }) idle: number;
}

@ApiSchema({ name: 'Demand', description: 'The constraints of runs that have not ended.' })
export class DemandDto {
  /**
   * Whether more runs may be PENDING than were counted, which are 100,000 at most, those that claims take first: all numbers
   * of pending runs are then lower bounds, and shapes and selectors may be missing.
   */
  @ApiProperty({ type: 'boolean', example: false }) at_least: boolean;
  /** All that are PENDING: `ready` and `waiting` together. */
  @ApiProperty({ type: DemandSumDto }) pending: DemandSumDto;
  /** Those that may be claimed now; with `held_back`. */
  @ApiProperty({ type: DemandSumDto }) ready: DemandSumDto;
  /** Those that wait for the end of their back-off or for their `start_at`, or that a pause holds. */
  @ApiProperty({ type: DemandSumDto }) waiting: DemandSumDto;
  /** Runs that are ASSIGNED or RUNNING. */
  @ApiProperty({ type: DemandSumDto }) in_execution: DemandSumDto;
  /** How many of the ready runs wait for other runs of their concurrency key. @example 0 */
  @ApiProperty({ type: 'integer' }) held_back: number;
  /** The pending runs by the reason for which they wait. Those of the rarest of more than 1,000 kinds count as `queue`. */
  @ApiProperty({ type: PendingByReasonDto }) reasons: PendingByReasonDto;
  /** When the oldest run that is PENDING was created; null when none is. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true }) oldest_pending_at: string | null;
  /** Those with the most pending runs first, then those with the most in execution; `limit` of them at most. */
  @ApiProperty({ type: [DemandShapeDto] }) shapes: DemandShapeDto[];
  /** Runs of the shapes that are left out there, together; null when none is. */
  @ApiProperty({ type: DemandNumbersDto, nullable: true }) other: DemandNumbersDto | null;
  /**
   * Runs by what they require of a worker: first those that require nothing, if there are any, then those with the most
   * pending runs and those with the most in execution, `limit` of them at most.
   */
  @ApiProperty({ type: [DemandSelectorDto] }) selectors: DemandSelectorDto[];
  /** Runs with requirements that are left out there, together; null when none is. */
  @ApiProperty({ type: DemandNumbersDto, nullable: true }) other_selectors: DemandNumbersDto | null;
}

@ApiSchema({ name: 'SupplySum', description: 'The total and the free amount of a resource.' })
export class SupplySumDto {
  /** @example 64 */
  @ApiProperty({ type: 'integer' }) total: number;
  /** @example 12 */
  @ApiProperty({ type: 'integer' }) free: number;
}

@ApiSchema({
  name: 'SupplyWorkers',
  description: 'The number of workers: each is active, draining, not claiming, away or stale.',
})
export class SupplyWorkersDto {
  /** With a heartbeat within the worker timeout, not draining, and claiming. @example 4 */
  @ApiProperty({ type: 'integer' }) active: number;
  /** Active workers without assigned runs. @example 1 */
  @ApiProperty({ type: 'integer' }) idle: number;
  /** Active workers that are reserved for a pending run. @example 0 */
  @ApiProperty({ type: 'integer' }) reserved: number;
  /** With such a heartbeat, and draining. @example 0 */
  @ApiProperty({ type: 'integer' }) draining: number;
  /** With such a heartbeat that says why they do not claim. @example 0 */
  @ApiProperty({ type: 'integer' }) not_claiming: number;
  /** Away, as they said themselves. @example 0 */
  @ApiProperty({ type: 'integer' }) away: number;
  /** Without a heartbeat for longer than the worker timeout, and not away. @example 0 */
  @ApiProperty({ type: 'integer' }) stale: number;
}

@ApiSchema({ name: 'SupplySize', description: 'Active workers with the same hardware.' })
export class SupplySizeDto {
  /** @example 16 */
  @ApiProperty({ type: 'integer' }) cpu_cores: number;
  /** @example 32000 */
  @ApiProperty({ type: 'integer' }) ram_mb: number;
  /** Memory of each GPU in MB, the largest first. */
  @ApiProperty({ type: 'array', items: { type: 'integer' } }) gpus: number[];
  /** How many workers. @example 4 */
  @ApiProperty({ type: 'integer' }) workers: number;
  /** Workers of them without assigned runs. @example 1 */
  @ApiProperty({ type: 'integer' }) idle: number;
}

@ApiSchema({ name: 'SupplyOther', description: 'The sum over the sizes that are not listed.' })
export class SupplyOtherDto {
  /** How many sizes. @example 2 */
  @ApiProperty({ type: 'integer' }) sizes: number;
  /** How many workers. @example 2 */
  @ApiProperty({ type: 'integer' }) workers: number;
  /** Workers of them without assigned runs. @example 1 */
  @ApiProperty({ type: 'integer' }) idle: number;
}

@ApiSchema({
  name: 'Supply',
  description: 'The hardware of the workers; sums and sizes cover active workers that accept runs.',
})
export class SupplyDto {
  @ApiProperty({ type: SupplyWorkersDto }) workers: SupplyWorkersDto;
  /** Whole cores; one that is used in part is not free. */
  @ApiProperty({ type: SupplySumDto }) cpu: SupplySumDto;
  /** Thousandths of cores. */
  @ApiProperty({ type: SupplySumDto }) cpu_millis: SupplySumDto;
  @ApiProperty({ type: SupplySumDto }) ram_mb: SupplySumDto;
  /** Over all GPUs. */
  @ApiProperty({ type: SupplySumDto }) vram_mb: SupplySumDto;
  /** GPUs; free: those that no run uses. */
  @ApiProperty({ type: SupplySumDto }) gpus: SupplySumDto;
  /** The most frequent first; `limit` of them at most. */
  @ApiProperty({ type: [SupplySizeDto] }) sizes: SupplySizeDto[];
  /** The sizes that are left out there; null when none is. */
  @ApiProperty({ type: SupplyOtherDto, nullable: true }) other: SupplyOtherDto | null;
  /** Engines of launchers, those with the most jobs first; `limit` of them at most. */
  @ApiProperty({ type: [EngineUseDto] }) engines: EngineUseDto[];
}

@ApiSchema({ name: 'CapacityReport', description: 'The demand of runs and the supply of workers.' })
export class CapacityReportDto {
  /** The time of the numbers. */
  @ApiProperty({ type: 'string', format: 'date-time' }) at: string;
  /** Name of the scheduling strategy. */
  @ApiProperty({ type: 'string', example: 'direct' }) strategy: string;
  @ApiProperty({ type: DemandDto }) demand: DemandDto;
  @ApiProperty({ type: SupplyDto }) supply: SupplyDto;
}

export function toNumbersDto({ ready, waiting, inExecution }: RunNumbers): DemandNumbersDto {
  return { pending: ready + waiting, ready, waiting, in_execution: inExecution };
}

/** All that are pending. */
export function toPendingDto(ready: DemandSum, waiting: DemandSum): DemandSumDto {
  return toSumDto({
    runs: ready.runs + waiting.runs,
    cpuMillis: ready.cpuMillis + waiting.cpuMillis,
    ramMb: ready.ramMb + waiting.ramMb,
    vramMb: ready.vramMb + waiting.vramMb,
    gpus: ready.gpus + waiting.gpus,
  });
}

export function toSumDto({ runs, cpuMillis, ramMb, vramMb, gpus }: DemandSum): DemandSumDto {
  return { runs, ...toCpuDto(cpuMillis), ram_mb: ramMb, vram_mb: vramMb, gpus };
}

/** Cores, rounded up, and the exact number of their thousandths. */
export function toCpuDto(cpuMillis: number): Pick<DemandSumDto, 'cpu' | 'cpu_millis'> {
  return { cpu: Math.ceil(cpuMillis / 1000), cpu_millis: cpuMillis };
}
