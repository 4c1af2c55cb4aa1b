import type { Constraints } from '../service-api/constraints.js';
import type { Resources, Gpu } from '../service-api/service-api.js';

/** Resources that a started run occupies. */
export interface Allocation {
  readonly cpuMillis: number;
  readonly ramMb: number;
  /** Of each of its GPUs. */
  readonly vramMb: number;
  /** Chosen by the service or by `tryAllocate`. */
  readonly gpuIds: readonly number[];
  /** Whether no other run may use its GPUs. */
  readonly isExclusive: boolean;
}

/** Tracks the free resources of this machine, CPU in thousandths of a core. Release every allocation once. */
export class Capacity {
  private runs = 0;
  private cpuMillis = 0;
  private ramMb = 0;
  private readonly gpus: GpuUses;

  /** @param maxRuns limit of concurrent runs */
  constructor(
    private resources: Resources,
    private readonly maxRuns: number,
  ) {
    this.gpus = new GpuUses(resources.gpus);
  }

  /** Offers other resources from now on; what runs occupy, they keep. */
  offer(resources: Resources): void {
    this.resources = resources;
    this.gpus.all = resources.gpus;
  }

  /** Memory in MB that is offered. */
  get offeredRamMb(): number {
    return this.resources.ramMb;
  }

  /** Runs that occupy resources. */
  get running(): number {
    return this.runs;
  }

  /** Whether a run could start now that requires no more CPU than is left, and nothing else. */
  hasFree(): boolean {
    return this.runs < this.maxRuns && this.cpuMillis < this.resources.cpuCores * 1000;
  }

  /** The requirement that this machine cannot meet even when idle, as one sentence; null when it meets all. */
  unmetRequirement(wanted: Constraints): string | null {
    const { cpuCores, ramMb } = this.resources;
    const cpuMillis = cpuOf(wanted);
    if (cpuMillis > cpuCores * 1000)
      return lacks('CPUs', cpuMillis / 1000, cpuCores, '', (cpuMillis - cpuCores * 1000) / 1000);
    if (wanted.ramMb > ramMb) return lacks('RAM', wanted.ramMb, ramMb, ' MB');
    return this.unmetGpus(wanted);
  }

  private unmetGpus({ vramMb, gpus, gpuIds, gpuSelector }: Constraints): string | null {
    const all = this.resources.gpus;
    for (const id of gpuIds) {
      const gpu = all.find((one) => one.id === id);
      if (gpu === undefined) return `The run is to use GPU ${id}, and this worker has no such GPU`;
      if (vramMb > gpu.vramMb) return lacks(`VRAM of GPU ${id}`, vramMb, gpu.vramMb, ' MB');
    }
    if (gpuIds.length > 0) return null;
    const tagged = all.filter((gpu) => hasTags(gpu, gpuSelector));
    const tags = gpuSelector.length === 0 ? '' : ` with the tags ${gpuSelector.join(', ')}`;
    const largest = Math.max(0, ...tagged.map((gpu) => gpu.vramMb));
    if (vramMb > largest) return lacks(`VRAM of one GPU${tags}`, vramMb, largest, ' MB');
    const fitting = tagged.filter((gpu) => gpu.vramMb >= vramMb).length;
    const memory = vramMb === 0 ? '' : ` of ${vramMb} MB or more`;
    return gpus > fitting ? lacks(`whole GPUs${memory}${tags}`, gpus, fitting, '') : null;
  }

  /**
   * Allocates what the run requires, at least one CPU unless it requires less. GPUs that nothing names are the smallest that
   * suffice: for a share of memory, the one with the least left.
   * @returns null when too little is free now
   */
  tryAllocate(wanted: Constraints): Allocation | null {
    const cpuMillis = cpuOf(wanted);
    if (this.runs >= this.maxRuns) return null;
    if (this.cpuMillis + cpuMillis > this.resources.cpuCores * 1000) return null;
    if (this.ramMb + wanted.ramMb > this.resources.ramMb) return null;
    const gpuIds = this.gpus.choose(wanted);
    if (gpuIds === null) return null;
    const { ramMb, vramMb, gpus } = wanted;
    const allocation = { cpuMillis, ramMb, vramMb, gpuIds, isExclusive: gpus > 0 };
    this.add(allocation, 1);
    return allocation;
  }

  /** Allocates what a run occupies already, also if it is not free. */
  take(held: Constraints): Allocation {
    const { ramMb, vramMb, gpus, gpuIds } = held;
    const allocation = { cpuMillis: cpuOf(held), ramMb, vramMb, gpuIds, isExclusive: gpus > 0 };
    this.add(allocation, 1);
    return allocation;
  }

  release(allocation: Allocation): void {
    this.add(allocation, -1);
  }

  private add({ cpuMillis, ramMb, ...use }: Allocation, times: 1 | -1): void {
    this.runs += times;
    this.cpuMillis += times * cpuMillis;
    this.ramMb += times * ramMb;
    this.gpus.add(use, times);
  }
}

/** A run that says nothing may use one core. */
function cpuOf({ cpuMillis }: Constraints): number {
  return cpuMillis === 0 ? 1000 : cpuMillis;
}

function lacks(what: string, wanted: number, has: number, unit: string, missing = wanted - has): string {
  return `The run wants ${wanted}${unit} of ${what}, and this worker has ${has}${unit}: ${missing}${unit} too few`;
}

/** This machine does not have what a run requires, not even when idle. */
export class Unmet extends Error {}

/** A run's request for capacity. */
export interface CapacityRequest {
  /** Resolves when the resources are allocated. @throws Unmet when the machine has them no longer */
  readonly granted: Promise<Allocation>;
  /** Withdraws the request or releases its allocation. Idempotent. */
  release(): void;
}

interface Waiter {
  readonly wanted: Constraints;
  grant: (allocation: Allocation) => void;
  refuse: (reason: Error) => void;
  allocation: Allocation | null;
}

/** Claimed runs that wait for capacity. First in, first out, so that small runs cannot starve a large one. */
export class CapacityQueue {
  private readonly waiting: Waiter[] = [];

  /** @param onCapacityFreed called when `hasCapacity` becomes true */
  constructor(
    readonly capacity: Capacity,
    private readonly onCapacityFreed: () => void,
  ) {}

  /** Whether a newly claimed run could start now. */
  hasCapacity(): boolean {
    return this.waiting.length === 0 && this.capacity.hasFree();
  }

  request(wanted: Constraints): CapacityRequest {
    const waiter: Waiter = { wanted, grant: () => undefined, refuse: () => undefined, allocation: null };
    const granted = new Promise<Allocation>((resolve, reject) => {
      waiter.grant = resolve;
      waiter.refuse = reject;
    });
    granted.catch(() => undefined);
    this.waiting.push(waiter);
    this.grantWaiting();
    return { granted, release: () => this.release(waiter) };
  }

  /** The capacity of a run that is executed already. */
  take(held: Constraints): CapacityRequest {
    const allocation = this.capacity.take(held);
    const waiter: Waiter = { wanted: held, grant: () => undefined, refuse: () => undefined, allocation };
    return { granted: Promise.resolve(allocation), release: () => this.release(waiter) };
  }

  /** Offers other resources from now on, and refuses the requests that wait for what there is no more. */
  offer(resources: Resources): void {
    this.capacity.offer(resources);
    for (const waiter of this.waiting.splice(0)) {
      const unmet = this.capacity.unmetRequirement(waiter.wanted);
      if (unmet === null) this.waiting.push(waiter);
      else waiter.refuse(new Unmet(unmet));
    }
    this.grantWaiting();
    if (this.hasCapacity()) this.onCapacityFreed();
  }

  private release(waiter: Waiter): void {
    const index = this.waiting.indexOf(waiter);
    if (index >= 0) {
      this.waiting.splice(index, 1);
    } else if (waiter.allocation !== null) {
      this.capacity.release(waiter.allocation);
      waiter.allocation = null;
    } else {
      return;
    }
    this.grantWaiting();
    if (this.hasCapacity()) this.onCapacityFreed();
  }

  private grantWaiting(): void {
    for (let first = this.waiting[0]; first !== undefined; first = this.waiting[0]) {
      const allocation = this.capacity.tryAllocate(first.wanted);
      if (allocation === null) return;
      first.allocation = allocation;
      this.waiting.shift();
      first.grant(allocation);
    }
  }
}

/** What a run has of its GPUs. */
interface GpuUse {
  readonly gpuIds: readonly number[];
  /** Of each of them. */
  readonly vramMb: number;
  /** Whether no other run may use them. */
  readonly isExclusive: boolean;
}

interface Used {
  readonly runs: number;
  readonly vramMb: number;
  readonly isExclusive: boolean;
}

const UNUSED: Used = { runs: 0, vramMb: 0, isExclusive: false };

/** Which GPUs of a machine runs use. One that a run has alone is used by no other run. */
class GpuUses {
  private readonly used = new Map<number, Used>();

  constructor(public all: readonly Gpu[]) {}

  /** Ids of GPUs that a run can have now; empty when it needs none, null when they are not free. */
  choose({ vramMb, gpus, gpuIds, gpuSelector }: Constraints): readonly number[] | null {
    const isExclusive = gpus > 0;
    const count = gpuIds.length > 0 ? gpuIds.length : isExclusive ? gpus : vramMb > 0 ? 1 : 0;
    const sizeOf = (gpu: Gpu): number => (isExclusive ? gpu.vramMb : this.freeMb(gpu));
    const fitting = this.all
      .filter((gpu) => (gpuIds.length > 0 ? gpuIds.includes(gpu.id) : hasTags(gpu, gpuSelector)))
      .filter((gpu) => (isExclusive ? this.of(gpu).runs === 0 : !this.of(gpu).isExclusive))
      .filter((gpu) => sizeOf(gpu) >= vramMb)
      .toSorted((a, b) => sizeOf(a) - sizeOf(b) || a.id - b.id);
    if (fitting.length < count) return null;
    return gpuIds.length > 0 ? gpuIds : fitting.slice(0, count).map(({ id }) => id);
  }

  /** Counts a use, or with -1 no longer. */
  add({ gpuIds, vramMb, isExclusive }: GpuUse, times: 1 | -1): void {
    for (const id of gpuIds) {
      const before = this.used.get(id) ?? UNUSED;
      this.used.set(id, {
        runs: before.runs + times,
        vramMb: before.vramMb + times * vramMb,
        isExclusive: isExclusive && times === 1,
      });
    }
  }

  private freeMb(gpu: Gpu): number {
    return gpu.vramMb - this.of(gpu).vramMb;
  }

  private of({ id }: Gpu): Used {
    return this.used.get(id) ?? UNUSED;
  }
}

/** Whether the GPU has all of the tags. */
function hasTags({ tags }: Gpu, wanted: readonly string[]): boolean {
  return wanted.every((tag) => tags.includes(tag));
}
