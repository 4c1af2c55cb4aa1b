import { groupOf } from '../pool/worker-pool.js';
import type { WorkerStanding } from '../workers.service.js';

/** An amount that workers have, and how much of it the runs that they hold take. */
export interface Usage {
  readonly total: number;
  readonly used: number;
}

/** The workers taken together. */
export interface WorkersSummary {
  /** Active and taking runs. */
  readonly active: number;
  /** Active, and kept from claiming by an admin. */
  readonly draining: number;
  /** Silent for longer than the worker timeout, draining or not. */
  readonly stale: number;
  /** Cores of the workers that are active and take runs. */
  readonly cpu: Usage;
  /** MB. */
  readonly ramMb: Usage;
  /** MB, over all their GPUs. */
  readonly vramMb: Usage;
}

/** Counts workers, each in one of the three groups, and adds up what those that take runs have. */
export function summariseWorkers(standings: Iterable<WorkerStanding>): WorkersSummary {
  const workers = { active: 0, draining: 0, stale: 0 };
  const cpu = { total: 0, used: 0 };
  const ramMb = { total: 0, used: 0 };
  const vramMb = { total: 0, used: 0 };
  for (const { worker, free } of standings) {
    const group = groupOf(worker);
    workers[group] += 1;
    if (group !== 'active') continue;
    add(cpu, worker.cpuCores, free.cpu);
    add(ramMb, worker.ramMb, free.ramMb);
    add(vramMb, vramOf(worker.gpus), vramOf(free.gpus));
  }
  return { ...workers, cpu, ramMb, vramMb };
}

function add(usage: { total: number; used: number }, total: number, free: number): void {
  usage.total += total;
  usage.used += total - free;
}

function vramOf(gpus: readonly { readonly vramMb: number }[]): number {
  return gpus.reduce((sum, { vramMb }) => sum + vramMb, 0);
}
