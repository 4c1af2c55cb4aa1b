import { Inject, Injectable } from '@nestjs/common';
import type { SchedulingStrategy } from '../../runs/scheduling-strategy.js';
import { PacedReading } from '../../workers/overview/paced-reading.js';
import { takesRuns, WorkerPool, type PooledWorker } from '../../workers/pool/worker-pool.js';
import { SCHEDULER } from '../strategies/scheduler.js';
import {
  MAX_LISTED,
  toCpuDto,
  toNumbersDto,
  toPendingDto,
  toSumDto,
  type CapacityReportDto,
  type DemandDto,
  type DemandNumbersDto,
  type DemandShapeDto,
} from './capacity.dto.js';
import {
  DemandReader,
  type DemandSnapshot,
  type RunNumbers,
  type ShapeDemand,
  type StageDemand,
} from './demand.reader.js';
import { placementOf } from './placement.js';
import { toSelectorDtos } from './selector-demand.js';
import { summariseSupply } from './supply.js';

@Injectable()
export class CapacityService {
  readonly #reading = new PacedReading(() => this.#read());

  constructor(
    private readonly reader: DemandReader,
    private readonly pool: WorkerPool,
    @Inject(SCHEDULER) private readonly strategy: SchedulingStrategy,
  ) {}

  /**
   * Concurrent requests share a reading, since it counts many runs.
   * @param limit shapes and requirements of runs, and sizes of workers, that are listed
   */
  async get(limit: number): Promise<CapacityReportDto> {
    const { workers, snapshot } = await this.#reading.get();
    const { demand, held, reserved } = snapshot;
    return {
      at: demand.at.toISOString(),
      strategy: this.strategy.name,
      demand: this.#toDemandDto(snapshot, workers.filter(takesRuns), limit),
      supply: summariseSupply(workers, held, reserved, limit),
    };
  }

  async #read(): Promise<{ readonly workers: readonly PooledWorker[]; readonly snapshot: DemandSnapshot }> {
    const workers = await this.pool.list();
    return { workers, snapshot: await this.reader.read(MAX_LISTED) };
  }

  /** @param open workers that accept runs */
  #toDemandDto(
    { demand, oldestPendingAt, held, reserved }: DemandSnapshot,
    open: readonly PooledWorker[],
    limit: number,
  ): DemandDto {
    const { ready, waiting, inExecution, heldBack } = demand.all;
    const all = numbersOf(demand.all);
    const shapes = demand.shapes.slice(0, limit);
    const unrestricted = demand.unrestricted === null ? [] : [demand.unrestricted];
    const selectors = [...unrestricted, ...demand.requirements.slice(0, limit)];
    const placement = placementOf(this.strategy, open, held, reserved);
    return {
      at_least: demand.isAtLeast,
      pending: toPendingDto(ready, waiting),
      ready: toSumDto(ready),
      waiting: toSumDto(waiting),
      in_execution: toSumDto(inExecution),
      held_back: heldBack,
      oldest_pending_at: oldestPendingAt?.toISOString() ?? null,
      shapes: shapes.map((shape) => toShapeDto(shape, placement)),
      other: subtract(all, shapes),
      selectors: toSelectorDtos(selectors, open, held),
      other_selectors: subtract(all, selectors.map(numbersOf)),
    };
  }
}

function toShapeDto(shape: ShapeDemand, placement: ReturnType<typeof placementOf>): DemandShapeDto {
  const { isPlaceable, free } = placement(shape, shape.ready);
  return {
    ...toCpuDto(shape.cpuMillis),
    ram_mb: shape.ramMb,
    vram_mb: shape.vramMb,
    gpus: shape.gpus,
    ...toNumbersDto(shape),
    placeable: isPlaceable,
    can_start_now: free,
  };
}

function numbersOf({ ready, waiting, inExecution }: StageDemand): RunNumbers {
  return { ready: ready.runs, waiting: waiting.runs, inExecution: inExecution.runs };
}

/** The runs that are not listed; null: all are. */
function subtract(all: RunNumbers, listed: readonly RunNumbers[]): DemandNumbersDto | null {
  const rest = { ...all };
  for (const { ready, waiting, inExecution } of listed) {
    rest.ready -= ready;
    rest.waiting -= waiting;
    rest.inExecution -= inExecution;
  }
  return rest.ready + rest.waiting + rest.inExecution > 0 ? toNumbersDto(rest) : null;
}
