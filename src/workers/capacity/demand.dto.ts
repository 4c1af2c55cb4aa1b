import { ApiProperty, ApiSchema } from '@nestjs/swagger';
import type { DemandSum } from '../../runs/counts/run-demand.repository.js';
import type { Capacity, PlacedDemand } from './capacity.service.js';

@ApiSchema({ name: 'DemandSum', description: 'The sum of the constraints of runs.' })
export class DemandSumDto {
  /** How many runs. @example 120 */
  @ApiProperty({ type: 'integer' })
  runs: number;
  /** Cores. @example 240 */
  @ApiProperty({ type: 'integer' })
  cpu: number;
  /** MB. @example 480000 */
  @ApiProperty({ type: 'integer' })
  ram_mb: number;
  /** MB of GPU memory. @example 0 */
  @ApiProperty({ type: 'integer' })
  vram_mb: number;
  /** Runs that ask for GPU memory; each takes it of one GPU. @example 0 */
  @ApiProperty({ type: 'integer' })
  gpus: number;
}

@ApiSchema({ name: 'DemandNumbers', description: 'The number of runs by progress.' })
export class DemandNumbersDto {
  /** Runs that are PENDING: `ready` and `waiting` together. @example 118 */
  @ApiProperty({ type: 'integer' })
  pending: number;
  /** Those that may be claimed now. @example 110 */
  @ApiProperty({ type: 'integer' })
  ready: number;
  /** Those that wait for the end of their back-off. @example 8 */
  @ApiProperty({ type: 'integer' })
  waiting: number;
  /** Runs in the hands of a worker, ASSIGNED or RUNNING. @example 2 */
  @ApiProperty({ type: 'integer' })
  in_execution: number;
}

@ApiSchema({ name: 'DemandShape', description: 'Runs with the same constraints; 0 means no requirement.' })
export class DemandShapeDto extends DemandNumbersDto {
  /** CPUs. @example 2 */
  @ApiProperty({ type: 'integer' })
  cpu: number;
  /** RAM in MB. @example 4000 */
  @ApiProperty({ type: 'integer' })
  ram_mb: number;
  /** GPU memory in MB, on one GPU. @example 0 */
  @ApiProperty({ type: 'integer' })
  vram_mb: number;
  /**
   * Whether any worker that takes runs could be given such a run if it held nothing. Null when no worker takes runs, or
   * when the scheduling strategy looks at more than the shape.
   */
  @ApiProperty({ type: 'boolean', nullable: true, example: true })
  placeable: boolean | null;
  /**
   * How many of those that are ready would find a place in what is free now, were no other shape waiting; under `direct`
   * a worker that holds nothing is one place. Null as for `placeable`.
   */
  @ApiProperty({ type: 'integer', nullable: true, example: 3 })
  can_start_now: number | null;
}

@ApiSchema({ name: 'Demand', description: 'The constraints of runs that have not ended.' })
export class DemandDto {
  /** All that are PENDING: `ready` and `waiting` together. */
  @ApiProperty({ type: DemandSumDto })
  pending: DemandSumDto;
  /** Those that may be claimed now. */
  @ApiProperty({ type: DemandSumDto })
  ready: DemandSumDto;
  /** Those that wait for the end of their back-off. */
  @ApiProperty({ type: DemandSumDto })
  waiting: DemandSumDto;
  /** Runs in the hands of a worker, ASSIGNED or RUNNING. */
  @ApiProperty({ type: DemandSumDto })
  in_execution: DemandSumDto;
  /** When the oldest run that is PENDING was created; null when none is. */
  @ApiProperty({ type: 'string', format: 'date-time', nullable: true })
  oldest_pending_at: string | null;
  /** Those with the most pending runs first, then those with the most in execution; `limit` of them at most. */
  @ApiProperty({ type: [DemandShapeDto] })
  shapes: DemandShapeDto[];
  /** Runs of the shapes that are left out there, together; null when none is. */
  @ApiProperty({ type: DemandNumbersDto, nullable: true })
  other: DemandNumbersDto | null;
}

/** The demand as clients see it. */
export function toDemandDto({ demand, oldestPendingAt }: Capacity): DemandDto {
  const { shapes, ready, waiting, inExecution } = demand;
  const told = { ready: 0, waiting: 0, inExecution: 0 };
  for (const shape of shapes) {
    told.ready += shape.ready;
    told.waiting += shape.waiting;
    told.inExecution += shape.inExecution;
  }
  const other = {
    ready: ready.runs - told.ready,
    waiting: waiting.runs - told.waiting,
    inExecution: inExecution.runs - told.inExecution,
  };
  return {
    pending: toSumDto(plus(ready, waiting)),
    ready: toSumDto(ready),
    waiting: toSumDto(waiting),
    in_execution: toSumDto(inExecution),
    oldest_pending_at: oldestPendingAt?.toISOString() ?? null,
    shapes: shapes.map(toShapeDto),
    other: Object.values(other).some((runs) => runs > 0) ? toNumbersDto(other) : null,
  };
}

function toShapeDto(shape: PlacedDemand): DemandShapeDto {
  return {
    cpu: shape.cpu,
    ram_mb: shape.ramMb,
    vram_mb: shape.vramMb,
    ...toNumbersDto(shape),
    placeable: shape.isPlaceable,
    can_start_now: shape.room,
  };
}

function toNumbersDto({
  ready,
  waiting,
  inExecution,
}: Pick<PlacedDemand, 'ready' | 'waiting' | 'inExecution'>): DemandNumbersDto {
  return { pending: ready + waiting, ready, waiting, in_execution: inExecution };
}

function toSumDto({ runs, cpu, ramMb, vramMb, gpus }: DemandSum): DemandSumDto {
  return { runs, cpu, ram_mb: ramMb, vram_mb: vramMb, gpus };
}

function plus(a: DemandSum, b: DemandSum): DemandSum {
  return {
    runs: a.runs + b.runs,
    cpu: a.cpu + b.cpu,
    ramMb: a.ramMb + b.ramMb,
    vramMb: a.vramMb + b.vramMb,
    gpus: a.gpus + b.gpus,
  };
}
