import { Inject, Injectable } from '@nestjs/common';
import {
  RunDemandReader,
  type DemandSnapshot,
  type DemandSum,
  type RunNumbers,
  type ShapeDemand,
} from '../../runs/counts/run-demand.reader.js';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { WorkerPool } from '../pool/worker-pool.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import type {
  CapacityReportDto,
  DemandDto,
  DemandNumbersDto,
  DemandShapeDto,
  DemandSumDto,
} from './capacity.dto.js';
import { placementOf } from './placement.js';
import { summariseSupply, takesRuns } from './supply.js';

@Injectable()
export class CapacityService {
  constructor(
    private readonly reader: RunDemandReader,
    private readonly pool: WorkerPool,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /** @param limit shapes of runs, and sizes of workers, that are listed */
  async read(limit: number): Promise<CapacityReportDto> {
    const workers = await this.pool.list();
    const ids = workers.map(({ id }) => id);
    const { demand, oldestPendingAt, held, reserved } = await this.reader.read(ids, limit);
    const placement = placementOf(this.strategy, workers.filter(takesRuns), held, reserved);
    return {
      at: demand.at.toISOString(),
      strategy: this.strategy.name,
      demand: toDemandDto(demand, oldestPendingAt, placement),
      supply: summariseSupply(workers, held, reserved, limit),
    };
  }
}

function toDemandDto(
  { shapes, ready, waiting, inExecution }: DemandSnapshot['demand'],
  oldestPendingAt: Date | null,
  placement: ReturnType<typeof placementOf>,
): DemandDto {
  const other = { ready: ready.runs, waiting: waiting.runs, inExecution: inExecution.runs };
  for (const shape of shapes) {
    other.ready -= shape.ready;
    other.waiting -= shape.waiting;
    other.inExecution -= shape.inExecution;
  }
  const pending = {
    runs: ready.runs + waiting.runs,
    cpu: ready.cpu + waiting.cpu,
    ramMb: ready.ramMb + waiting.ramMb,
    vramMb: ready.vramMb + waiting.vramMb,
    gpus: ready.gpus + waiting.gpus,
  };
  return {
    pending: toSumDto(pending),
    ready: toSumDto(ready),
    waiting: toSumDto(waiting),
    in_execution: toSumDto(inExecution),
    oldest_pending_at: oldestPendingAt?.toISOString() ?? null,
    shapes: shapes.map((shape) => toShapeDto(shape, placement)),
    other: Object.values(other).some((runs) => runs > 0) ? toNumbersDto(other) : null,
  };
}

function toShapeDto(shape: ShapeDemand, placement: ReturnType<typeof placementOf>): DemandShapeDto {
  const { isPlaceable, free } = placement(shape, shape.ready);
  return {
    cpu: shape.cpu,
    ram_mb: shape.ramMb,
    vram_mb: shape.vramMb,
    ...toNumbersDto(shape),
    placeable: isPlaceable,
    can_start_now: free,
  };
}

function toNumbersDto({ ready, waiting, inExecution }: RunNumbers): DemandNumbersDto {
  return { pending: ready + waiting, ready, waiting, in_execution: inExecution };
}

function toSumDto({ runs, cpu, ramMb, vramMb, gpus }: DemandSum): DemandSumDto {
  return { runs, cpu, ram_mb: ramMb, vram_mb: vramMb, gpus };
}
