import { groupOf, noWorkers } from './pool/worker-pool.js';
import type { WorkerStatus } from './workers.service.js';

/** An amount of a resource, and what runs use of it. */
export interface Usage {
  readonly total: number;
  readonly used: number;
}

/** Workers by group, and the resources of the active group; GPU memory over all GPUs. */
export function summariseWorkers(workers: Iterable<Omit<WorkerStatus, 'assigned'>>) {
  const counts = noWorkers();
  const cpuMillis = { total: 0, used: 0 };
  const ramMb = { total: 0, used: 0 };
  const vramMb = { total: 0, used: 0 };
  for (const { worker, free } of workers) {
    const group = groupOf(worker);
    counts[group] += 1;
    if (group !== 'active') continue;
    add(cpuMillis, worker.cpuCores * 1000, free.cpuMillis);
    add(ramMb, worker.ramMb, free.ramMb);
    add(vramMb, vramOf(worker.gpus), vramOf(free.gpus));
  }
  return { ...counts, cpuMillis, ramMb, vramMb };
}

/** Whole cores: what is used in part counts as used. */
export function toCores({ total, used }: Usage): Usage {
  return { total: total / 1000, used: Math.ceil(used / 1000) };
}

function add(usage: { total: number; used: number }, total: number, free: number): void {
  usage.total += total;
  usage.used += total - free;
}

function vramOf(gpus: readonly { readonly vramMb: number }[]): number {
  return gpus.reduce((sum, { vramMb }) => sum + vramMb, 0);
}
