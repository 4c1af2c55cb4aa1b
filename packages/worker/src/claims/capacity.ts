import type { Constraints, Gpu, Resources } from '../service-api/service-api.js';

/** What a started run occupies. */
export interface Share {
  readonly cpu: number;
  readonly ramMb: number;
  readonly vramMb: number;
  /** The GPU that the run uses, chosen by the service or here; null for none. */
  readonly gpuId: number | null;
}

/** Keeps account of what this machine has free. Pure bookkeeping: every share taken must be released once. */
export class Capacity {
  private runs = 0;
  private cpu = 0;
  private ramMb = 0;
  private readonly vramMb = new Map<number, number>();

  /** @param maxRuns how many runs may be executed at once */
  constructor(
    private readonly resources: Resources,
    private readonly maxRuns: number,
  ) {}

  /** Whether any run at all could be started now. */
  hasFree(): boolean {
    return this.runs < this.maxRuns && this.cpu < this.resources.cpuCores;
  }

  /** Why this machine could not execute such a run even when idle, one sentence; null when it could. */
  whyNever(wanted: Constraints): string | null {
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
   * Takes what the run wants, at least one CPU; a run that wants VRAM of no certain GPU gets the one that fits tightest.
   * @returns null when too little is free now
   */
  tryTake(wanted: Constraints): Share | null {
    const cpu = cpuOf(wanted);
    if (this.runs >= this.maxRuns) return null;
    if (this.cpu + cpu > this.resources.cpuCores) return null;
    if (this.ramMb + wanted.ramMb > this.resources.ramMb) return null;
    const needsGpu = wanted.gpuId !== null || wanted.vramMb > 0;
    const gpu = needsGpu ? this.findGpu(wanted) : null;
    if (gpu === undefined) return null;
    const share = { cpu, ramMb: wanted.ramMb, vramMb: wanted.vramMb, gpuId: gpu?.id ?? null };
    this.add(share, 1);
    return share;
  }

  release(share: Share): void {
    this.add(share, -1);
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

  private add({ cpu, ramMb, vramMb, gpuId }: Share, times: 1 | -1): void {
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
