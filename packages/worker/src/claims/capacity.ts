import type { Constraints, Gpu, Resources } from '../service-api/service-api.js';

/** Resources that a started run occupies. */
export interface Allocation {
  readonly cpu: number;
  readonly ramMb: number;
  readonly vramMb: number;
  /** Chosen by the service or by `tryAllocate`; null: no GPU. */
  readonly gpuId: number | null;
}

/** Tracks the free resources of this machine. Release every allocation once. */
export class Capacity {
  private runs = 0;
  private cpu = 0;
  private ramMb = 0;
  private readonly vramMb = new Map<number, number>();

  /** @param maxRuns limit of concurrent runs */
  constructor(
    private readonly resources: Resources,
    private readonly maxRuns: number,
  ) {}

  /** Whether a run that requires one CPU and nothing else could start now. */
  hasFree(): boolean {
    return this.runs < this.maxRuns && this.cpu < this.resources.cpuCores;
  }

  /** The requirement that this machine cannot meet even when idle, as one sentence; null when it meets all. */
  unmetRequirement(wanted: Constraints): string | null {
    const { cpuCores, ramMb, gpus } = this.resources;
    if (cpuOf(wanted) > cpuCores) return lacks('CPUs', cpuOf(wanted), cpuCores, '');
    if (wanted.ramMb > ramMb) return lacks('RAM', wanted.ramMb, ramMb, ' MB');
    if (wanted.gpuId !== null) {
      const gpu = gpus.find(({ id }) => id === wanted.gpuId);
      if (gpu === undefined) return `The run is to use GPU ${wanted.gpuId}, and this worker has no such GPU`;
      if (wanted.vramMb > gpu.vramMb) return lacks(`VRAM of GPU ${gpu.id}`, wanted.vramMb, gpu.vramMb, ' MB');
      return null;
    }
    const largest = Math.max(0, ...gpus.map((gpu) => gpu.vramMb));
    return wanted.vramMb > largest ? lacks('VRAM of one GPU', wanted.vramMb, largest, ' MB') : null;
  }

  /**
   * Allocates what the run requires, at least one CPU. VRAM without a GPU id comes from the GPU with the least free VRAM
   * that suffices.
   * @returns null when too little is free now
   */
  tryAllocate(wanted: Constraints): Allocation | null {
    const cpu = cpuOf(wanted);
    if (this.runs >= this.maxRuns) return null;
    if (this.cpu + cpu > this.resources.cpuCores) return null;
    if (this.ramMb + wanted.ramMb > this.resources.ramMb) return null;
    const needsGpu = wanted.gpuId !== null || wanted.vramMb > 0;
    const gpu = needsGpu ? this.findGpu(wanted) : null;
    if (gpu === undefined) return null;
    const allocation = { cpu, ramMb: wanted.ramMb, vramMb: wanted.vramMb, gpuId: gpu?.id ?? null };
    this.add(allocation, 1);
    return allocation;
  }

  release(allocation: Allocation): void {
    this.add(allocation, -1);
  }

  private findGpu(wanted: Constraints): Gpu | undefined {
    return this.resources.gpus
      .filter(({ id }) => wanted.gpuId === null || id === wanted.gpuId)
      .filter((gpu) => this.freeVram(gpu) >= wanted.vramMb)
      .toSorted((a, b) => this.freeVram(a) - this.freeVram(b) || a.id - b.id)[0];
  }

  private freeVram(gpu: Gpu): number {
    return gpu.vramMb - (this.vramMb.get(gpu.id) ?? 0);
  }

  private add({ cpu, ramMb, vramMb, gpuId }: Allocation, times: 1 | -1): void {
    this.runs += times;
    this.cpu += times * cpu;
    this.ramMb += times * ramMb;
    if (gpuId !== null) this.vramMb.set(gpuId, (this.vramMb.get(gpuId) ?? 0) + times * vramMb);
  }
}

function cpuOf({ cpu }: Constraints): number {
  return Math.max(1, cpu);
}

function lacks(what: string, wanted: number, has: number, unit: string): string {
  return `The run wants ${wanted}${unit} of ${what}, and this worker has ${has}${unit}: ${wanted - has}${unit} too few`;
}

/** A run's request for capacity. */
export interface CapacityRequest {
  /** Resolves when the resources are allocated. */
  readonly granted: Promise<Allocation>;
  /** Withdraws the request or releases its allocation. Idempotent. */
  release(): void;
}

interface Waiter {
  readonly wanted: Constraints;
  grant: (allocation: Allocation) => void;
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
    const waiter: Waiter = { wanted, grant: () => undefined, allocation: null };
    const granted = new Promise<Allocation>((resolve) => {
      waiter.grant = resolve;
    });
    this.waiting.push(waiter);
    this.grantWaiting();
    return { granted, release: () => this.release(waiter) };
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
