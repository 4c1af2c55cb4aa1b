import type { ClaimingWorker, HeldRun } from '../runs/scheduling-strategy.js';

/** Free thousandths of cores and MB of memory. */
export interface FreeResources {
  readonly cpuMillis: number;
  readonly ramMb: number;
  /** In the order of the worker's GPUs. */
  readonly gpus: readonly { readonly id: number; readonly vramMb: number }[];
}

/** Resources minus those of the worker's own runs, at least 0. A run without an assigned GPU counts on every GPU. */
export function freeResources(worker: ClaimingWorker, held: readonly HeldRun[]): FreeResources {
  let cpuMillis = worker.cpuCores * 1000;
  let ramMb = worker.ramMb;
  let onEveryGpu = 0;
  const onGpu = new Map<number, number>();
  for (const run of held) {
    if (run.workerId !== worker.id) continue;
    cpuMillis -= run.cpuMillis;
    ramMb -= run.ramMb;
    if (run.gpuId === null) onEveryGpu += run.vramMb;
    else onGpu.set(run.gpuId, (onGpu.get(run.gpuId) ?? 0) + run.vramMb);
  }
  return {
    cpuMillis: Math.max(0, cpuMillis),
    ramMb: Math.max(0, ramMb),
    gpus: worker.gpus.map(({ id, vramMb }) => ({
      id,
      vramMb: Math.max(0, vramMb - onEveryGpu - (onGpu.get(id) ?? 0)),
    })),
  };
}
