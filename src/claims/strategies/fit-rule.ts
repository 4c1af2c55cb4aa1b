import type { ClaimingWorker, Obstacle, Shape } from '../../runs/scheduling-strategy.js';
import { freeResources, type FreeResources } from '../../workers/free-resources.js';

const NONE: readonly Obstacle[] = [];

/** The resources that a worker lacks for a run; empty if it fits. @param free the result of {@link largestShape} */
export function shortages(worker: ClaimingWorker, free: Shape, run: Shape): readonly Obstacle[] {
  if (run.cpuMillis <= free.cpuMillis && run.ramMb <= free.ramMb && run.vramMb <= free.vramMb) return NONE;
  const total = largestShape(freeResources(worker, []));
  return [
    {
      resource: 'cpu',
      needed: run.cpuMillis / 1000,
      free: free.cpuMillis / 1000,
      total: total.cpuMillis / 1000,
    },
    { resource: 'ram_mb', needed: run.ramMb, free: free.ramMb, total: total.ramMb },
    { resource: 'vram_mb', needed: run.vramMb, free: free.vramMb, total: total.vramMb },
  ].filter(({ needed, free: left }) => needed > left);
}

/** Best fit: the id of the GPU with the least memory that is enough, the first of equals; null: none. */
export function tightestGpu({ gpus }: FreeResources, vramMb: number): number | null {
  if (vramMb === 0) return null;
  let tightest: FreeResources['gpus'][number] | null = null;
  for (const gpu of gpus) {
    if (gpu.vramMb >= vramMb && (tightest === null || gpu.vramMb < tightest.vramMb)) tightest = gpu;
  }
  return tightest?.id ?? null;
}

/** The most of each resource that one run can get. */
export function largestShape({ cpuMillis, ramMb, gpus }: FreeResources): Shape {
  let vramMb = 0;
  for (const gpu of gpus) vramMb = Math.max(vramMb, gpu.vramMb);
  return { cpuMillis, ramMb, vramMb };
}

/** How many runs of the shape fit side by side; Infinity for a shape without requirements. */
export function countFitting({ cpuMillis, ramMb, gpus }: FreeResources, shape: Shape): number {
  const onGpus = gpus.reduce((sum, { vramMb }) => sum + times(vramMb, shape.vramMb), 0);
  return Math.min(
    times(cpuMillis, shape.cpuMillis),
    times(ramMb, shape.ramMb),
    shape.vramMb === 0 ? Infinity : onGpus,
  );
}

function times(free: number, each: number): number {
  return each === 0 ? Infinity : Math.floor(free / each);
}
