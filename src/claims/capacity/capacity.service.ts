import { Inject, Injectable } from '@nestjs/common';
import type { SchedulingStrategy, HeldRun, Shape } from '../../runs/scheduling-strategy.js';
import {
  summariseEngines,
  takesRuns,
  WorkerPool,
  type PooledWorker,
} from '../../workers/pool/worker-pool.js';
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
  type DemandSelectorDto,
  type SupplyDto,
  type SupplySizeDto,
  type SupplySumDto,
  type WantedWorkersDto,
} from './capacity.dto.js';
import {
  DemandReader,
  type DemandSnapshot,
  type RunNumbers,
  type ShapeDemand,
  type StageDemand,
  type RequirementDemand,
} from './demand.reader.js';
import { requirementsOfList } from '../../runs/requirements.js';
import { offerOf, serves } from '../../runs/queue/lane.js';
import { unmetWords } from '../explain/explain-summary.js';
import { freeResources } from '../../workers/free-resources.js';
import { summariseWorkers, toCores, type Usage } from '../../workers/worker-totals.js';
import { noneByReason, type ReasonCounts } from '../../runs/pending-reason.js';
import { SharedReading } from '../../common/shared-reading.js';
import { countReasons } from './count-reasons.js';
import { wantedWorkers, type WorkerKind } from './wanted-workers.js';

interface Reading {
  readonly workers: readonly PooledWorker[];
  readonly snapshot: DemandSnapshot;
  readonly reasons: ReasonCounts;
}

@Injectable()
export class CapacityService {
  readonly #reading = new SharedReading(() => this.#read(), { pauseFactor: 9 });

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
    const { workers, snapshot, reasons } = await this.#reading.next();
    const { demand, held, reserved } = snapshot;
    return {
      at: demand.at.toISOString(),
      strategy: this.strategy.name,
      demand: this.#toDemandDto(snapshot, workers.filter(takesRuns), reasons, limit),
      supply: summariseSupply(workers, held, reserved, limit),
    };
  }

  /** How many workers of a kind there should be. */
  async countWanted(kind: WorkerKind): Promise<WantedWorkersDto> {
    const { workers, snapshot } = await this.#reading.next();
    const { demand, held } = snapshot;
    const { kinds, isAtLeast } = demand;
    return wantedWorkers(kind, { kinds, workers, held, isAtLeast, isByFit: this.strategy.name === 'fit' });
  }

  /** @param pending runs that are pending; nothing is read if there are none */
  async countByReason(pending: number): Promise<ReasonCounts> {
    return pending === 0 ? noneByReason() : (await this.#reading.newest()).reasons;
  }

  async #read(): Promise<Reading> {
    const workers = await this.pool.list();
    const snapshot = await this.reader.read(MAX_LISTED);
    return { workers, snapshot, reasons: countReasons(snapshot.demand, workers, this.strategy) };
  }

  /** @param open workers that accept runs */
  #toDemandDto(
    { demand, oldestPendingAt, held, reserved }: DemandSnapshot,
    open: readonly PooledWorker[],
    reasons: ReasonCounts,
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
      reasons,
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

/**
 * Tells, by the rule of the strategy, whether and how often runs of a shape fit the workers; null: unknown.
 * @param workers those that accept runs
 * @param held their runs, by worker
 * @param reserved ids of workers that are reserved for a run: they take no other
 * @returns function of a shape and of the number of runs above which free places need not be counted
 */
export function placementOf(
  strategy: SchedulingStrategy,
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
  reserved: ReadonlySet<string>,
) {
  const countersOf = (some: readonly PooledWorker[], runs: typeof held) =>
    some.flatMap((worker) => strategy.roomOf?.({ ...worker, held: runs.get(worker.id) ?? [] }) ?? []);
  const ofIdle = countersOf(workers, new Map());
  const ofFree = countersOf(
    workers.filter(({ id }) => !reserved.has(id)),
    held,
  );
  return (
    shape: Shape,
    most: number,
  ): { readonly isPlaceable: boolean | null; readonly free: number | null } => {
    if (ofIdle.length === 0) return { isPlaceable: null, free: null };
    if (!ofIdle.some((count) => count(shape) > 0)) return { isPlaceable: false, free: 0 };
    let free = 0;
    for (const count of ofFree) {
      if (free >= most) break;
      free += count(shape);
    }
    return { isPlaceable: true, free: Math.min(free, most) };
  };
}

/**
 * Runs that require the same of a worker, and how many workers have it.
 * @param workers those that accept runs
 * @param held their runs, by worker
 */
export function toSelectorDtos(
  demands: readonly RequirementDemand[],
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
): DemandSelectorDto[] {
  const offers = workers.map((worker) => ({
    offer: offerOf(worker),
    isIdle: !held.has(worker.id),
  }));
  return demands.map(({ required, ready, waiting, inExecution, heldBack }) => {
    const matching = offers.filter(({ offer }) => serves(offer, { required }));
    const requirements = requirementsOfList(required);
    return {
      selector: [...requirements.tags],
      capabilities: [...requirements.capabilities],
      gpu_selector: [...requirements.gpuTags],
      gpus: requirements.gpus?.count ?? 0,
      gpu_vram_mb: requirements.gpus?.vramMb ?? 0,
      lacking: matching.length > 0 || required.length === 0 ? null : unmetWords(workers, requirements),
      pending: toPendingDto(ready, waiting),
      ready: toSumDto(ready),
      waiting: toSumDto(waiting),
      in_execution: toSumDto(inExecution),
      held_back: heldBack,
      workers: matching.length,
      idle: matching.filter(({ isIdle }) => isIdle).length,
    };
  });
}

/** Adds up the resources of workers. @param limit sizes and engines that are listed */
export function summariseSupply(
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
  reserved: ReadonlySet<string>,
  limit: number,
): SupplyDto {
  const all = workers.map((worker) => ({ worker, free: freeResources(worker, held.get(worker.id) ?? []) }));
  const {
    active,
    draining,
    not_claiming: notClaiming,
    away,
    stale,
    cpuMillis,
    ramMb,
    vramMb,
  } = summariseWorkers(all);
  const open = all.filter(({ worker }) => takesRuns(worker));
  const gpus = open.flatMap(({ free }) => free.gpus);
  const sizes = sizesOf(
    open.map(({ worker }) => worker),
    held,
  );
  const rest = sizes.slice(limit);
  return {
    workers: {
      active,
      idle: sizes.reduce((sum, { idle }) => sum + idle, 0),
      reserved: open.filter(({ worker }) => reserved.has(worker.id)).length,
      draining,
      not_claiming: notClaiming,
      away,
      stale,
    },
    cpu: toUsageDto(toCores(cpuMillis)),
    cpu_millis: toUsageDto(cpuMillis),
    ram_mb: toUsageDto(ramMb),
    vram_mb: toUsageDto(vramMb),
    gpus: toUsageDto({ total: gpus.length, used: gpus.filter(({ isIdle }) => !isIdle).length }),
    sizes: sizes.slice(0, limit),
    other:
      rest.length === 0
        ? null
        : {
            sizes: rest.length,
            workers: rest.reduce((sum, size) => sum + size.workers, 0),
            idle: rest.reduce((sum, size) => sum + size.idle, 0),
          },
    engines: summariseEngines(workers, limit),
  };
}

/** The most frequent sizes first. */
function sizesOf(
  workers: readonly PooledWorker[],
  held: ReadonlyMap<string, readonly HeldRun[]>,
): SupplySizeDto[] {
  const sizes = new Map<string, SupplySizeDto>();
  for (const { id, cpuCores, ramMb, gpus: given } of workers) {
    const gpus = given.map(({ vramMb }) => vramMb).toSorted((a, b) => b - a);
    const key = [cpuCores, ramMb, ...gpus].join();
    const size = sizes.get(key) ?? { cpu_cores: cpuCores, ram_mb: ramMb, gpus, workers: 0, idle: 0 };
    size.workers += 1;
    size.idle += held.has(id) ? 0 : 1;
    sizes.set(key, size);
  }
  return [...sizes.values()].toSorted((a, b) => b.workers - a.workers);
}

function toUsageDto({ total, used }: Usage): SupplySumDto {
  return { total, free: total - used };
}
