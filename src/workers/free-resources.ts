import type { ClaimingWorker, HeldRun } from '../runs/scheduling-strategy.js';

/** What a worker has left: cores, and MB of memory. */
export interface FreeResources {
  readonly cpu: number;
  readonly ramMb: number;
  /** In the worker's own order of GPUs. */
  readonly gpus: readonly { readonly id: number; readonly vramMb: number }[];
}

/**
 * A worker's resources less what the runs take that it holds; never below 0. GPU memory taken by a run that was given
 * no GPU counts on every GPU, because it may be any of them.
 * @param held runs of this worker; those of others are left out of account
 */
export function freeResources(worker: ClaimingWorker, held: readonly HeldRun[]): FreeResources {
  let cpu = worker.cpuCores;
  let ramMb = worker.ramMb;
  let onEveryGpu = 0;
  const onGpu = new Map<number, number>();
  for (const run of held) {
    if (run.workerId !== worker.id) continue;
    cpu -= run.cpu;
    ramMb -= run.ramMb;
    if (run.gpuId === null) onEveryGpu += run.vramMb;
    else onGpu.set(run.gpuId, (onGpu.get(run.gpuId) ?? 0) + run.vramMb);
  }
  return {
    cpu: Math.max(0, cpu),
    ramMb: Math.max(0, ramMb),
    gpus: worker.gpus.map(({ id, vramMb }) => ({
      id,
      vramMb: Math.max(0, vramMb - onEveryGpu - (onGpu.get(id) ?? 0)),
    })),
  };
}
