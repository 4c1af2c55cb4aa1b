import type { ClaimingWorker, Gpu, HeldRun } from '../runs/scheduling-strategy.js';

/** A GPU with its free memory. */
export interface FreeGpu extends Gpu {
  /** Whether no run uses it. */
  readonly isIdle: boolean;
}

/** Free thousandths of cores and MB of memory. */
export interface FreeResources {
  readonly cpuMillis: number;
  readonly ramMb: number;
  /** In the order of the worker's GPUs. */
  readonly gpus: readonly FreeGpu[];
}

/**
 * Resources minus those of the worker's own runs, and of ended ones whose programs it still ends, at least 0. A GPU of a run that asks for whole ones has no free memory. A run
 * of which not all GPUs are known counts on every GPU.
 */
export function freeResources(worker: ClaimingWorker, held: readonly HeldRun[]): FreeResources {
  let cpuMillis = worker.cpuCores * 1000;
  let { ramMb } = worker;
  const uses = new Map<number, number>();
  for (const run of held) {
    if (run.workerId !== worker.id) continue;
    cpuMillis -= run.cpuMillis;
    ramMb -= run.ramMb;
    if (run.gpus === 0 && run.vramMb === 0 && run.gpuIds.length === 0) continue;
    const isKnown = run.gpuIds.length >= Math.max(1, run.gpus);
    const ids = isKnown ? run.gpuIds : worker.gpus.map(({ id }) => id);
    for (const id of ids) uses.set(id, (uses.get(id) ?? 0) + (run.gpus > 0 ? Infinity : run.vramMb));
  }
  return {
    cpuMillis: Math.max(0, cpuMillis),
    ramMb: Math.max(0, ramMb),
    gpus: worker.gpus.map(({ id, vramMb, tags }) => {
      const used = uses.get(id);
      return { id, vramMb: Math.max(0, vramMb - (used ?? 0)), tags, isIdle: used === undefined };
    }),
  };
}
