import type { ClaimingWorker, Obstacle, Shape } from '../../runs/scheduling-strategy.js';
import type { FreeResources } from '../free-resources.js';

const NONE: readonly Obstacle[] = [];

/**
 * What a worker has too little of for a run; empty when the run fits. A requirement of 0 is none, so it is met even by
 * a worker that has nothing left. GPU memory is wanted on one single GPU.
 * @param room the most that one run can get of what is free: {@link roomIn}
 */
export function shortages(worker: ClaimingWorker, room: Shape, run: Shape): readonly Obstacle[] {
  const isShort = {
    cpu: run.cpu > 0 && run.cpu > room.cpu,
    ramMb: run.ramMb > 0 && run.ramMb > room.ramMb,
    vramMb: run.vramMb > 0 && run.vramMb > room.vramMb,
  };
  if (!isShort.cpu && !isShort.ramMb && !isShort.vramMb) return NONE;
  const total = roomIn({ cpu: worker.cpuCores, ramMb: worker.ramMb, gpus: worker.gpus });
  const short: Obstacle[] = [];
  if (isShort.cpu) short.push({ resource: 'cpu', needed: run.cpu, free: room.cpu, total: total.cpu });
  if (isShort.ramMb) {
    short.push({ resource: 'ram_mb', needed: run.ramMb, free: room.ramMb, total: total.ramMb });
  }
  if (isShort.vramMb) {
    short.push({ resource: 'vram_mb', needed: run.vramMb, free: room.vramMb, total: total.vramMb });
  }
  return short;
}

/** The id of the GPU that a run is to use: the one that it fills best, the worker's first of equals. Null: none. */
export function tightestGpu({ gpus }: FreeResources, vramMb: number): number | null {
  if (vramMb === 0) return null;
  let tightest: FreeResources['gpus'][number] | null = null;
  for (const gpu of gpus) {
    if (gpu.vramMb >= vramMb && (tightest === null || gpu.vramMb < tightest.vramMb)) tightest = gpu;
  }
  return tightest?.id ?? null;
}

/** The most of each resource that one run can get of what is free. */
export function roomIn({ cpu, ramMb, gpus }: FreeResources): Shape {
  let vramMb = 0;
  for (const gpu of gpus) vramMb = Math.max(vramMb, gpu.vramMb);
  return { cpu, ramMb, vramMb };
}

/** How many runs of the shape fit into what is free, side by side; Infinity when it asks for nothing. */
export function timesIn({ cpu, ramMb, gpus }: FreeResources, shape: Shape): number {
  const onGpus =
    shape.vramMb === 0 ? Infinity : gpus.reduce((sum, gpu) => sum + Math.floor(gpu.vramMb / shape.vramMb), 0);
  return Math.min(times(cpu, shape.cpu), times(ramMb, shape.ramMb), onGpus);
}

function times(free: number, each: number): number {
  return each === 0 ? Infinity : Math.floor(free / each);
}
