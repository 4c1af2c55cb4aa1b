import { Inject, Injectable } from '@nestjs/common';
import { addUp } from '../../runs/counts/demand-sums.js';
import {
  RunDemandReader,
  type DemandSnapshot,
  type ShapeDemand,
} from '../../runs/counts/run-demand.reader.js';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { takesRuns, WorkerPool } from '../pool/worker-pool.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import {
  toNumbersDto,
  toSumDto,
  type CapacityReportDto,
  type DemandDto,
  type DemandShapeDto,
} from './capacity.dto.js';
import { placementOf } from './placement.js';
import { selectorDemand } from './selector-demand.js';
import { summariseSupply } from './supply.js';

@Injectable()
export class CapacityService {
  constructor(
    private readonly reader: RunDemandReader,
    private readonly pool: WorkerPool,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /** @param limit shapes and requirements of runs, and sizes of workers, that are listed */
  async read(limit: number): Promise<CapacityReportDto> {
    const workers = await this.pool.list();
    const snapshot = await this.reader.read(limit);
    const { demand, held, reserved } = snapshot;
    const open = workers.filter(takesRuns);
    return {
      at: demand.at.toISOString(),
      strategy: this.strategy.name,
      demand: toDemandDto(
        snapshot,
        placementOf(this.strategy, open, held, reserved),
        selectorDemand(demand, snapshot.byRequirements, open, held),
      ),
      supply: summariseSupply(workers, held, reserved, limit),
    };
  }
}

function toDemandDto(
  { demand, byRequirements, oldestPendingAt }: DemandSnapshot,
  placement: ReturnType<typeof placementOf>,
  { selectors, other: otherSelectors }: ReturnType<typeof selectorDemand>,
): DemandDto {
  const { shapes, ready, waiting, inExecution } = demand;
  const other = { ready: ready.runs, waiting: waiting.runs, inExecution: inExecution.runs };
  for (const shape of shapes) {
    other.ready -= shape.ready;
    other.waiting -= shape.waiting;
    other.inExecution -= shape.inExecution;
  }
  return {
    pending: toSumDto(addUp(ready, waiting)),
    ready: toSumDto(ready),
    waiting: toSumDto(waiting),
    in_execution: toSumDto(inExecution),
    held_back: byRequirements.all.heldBack + byRequirements.heldBackWithout,
    oldest_pending_at: oldestPendingAt?.toISOString() ?? null,
    shapes: shapes.map((shape) => toShapeDto(shape, placement)),
    other: Object.values(other).some((runs) => runs > 0) ? toNumbersDto(other) : null,
    selectors,
    other_selectors: otherSelectors,
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
