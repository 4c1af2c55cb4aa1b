import type { Constraints } from '../service-api/constraints.js';
import type { Gpu } from '../service-api/service-api.js';

/** What a run has of its GPUs. */
export interface GpuUse {
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
export class GpuUses {
  private readonly used = new Map<number, Used>();

  constructor(private readonly gpus: readonly Gpu[]) {}

  /** Ids of GPUs that a run can have now; empty when it needs none, null when they are not free. */
  choose({ vramMb, gpus, gpuIds, gpuSelector }: Constraints): readonly number[] | null {
    const isExclusive = gpus > 0;
    const count = gpuIds.length > 0 ? gpuIds.length : isExclusive ? gpus : vramMb > 0 ? 1 : 0;
    const sizeOf = (gpu: Gpu): number => (isExclusive ? gpu.vramMb : this.freeMb(gpu));
    const fitting = this.gpus
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
export function hasTags({ tags }: Gpu, wanted: readonly string[]): boolean {
  return wanted.every((tag) => tags.includes(tag));
}
