import type { Gpu, Resources } from '@longshore/worker/service-api/service-api';
import { hasEnded, isWaiting, parseGpus, type SlurmJob } from './squeue-lines.js';

/** States and flags of nodes that take no jobs. */
const UNUSABLE = new Set([
  'DOWN',
  'DRAIN',
  'DRAINED',
  'DRAINING',
  'ERROR',
  'FAIL',
  'FAILING',
  'FUTURE',
  'INVAL',
  'INVALID_REG',
  'MAINT',
  'MAINTENANCE',
  'NOT_RESPONDING',
  'RESERVED',
  'UNKNOWN',
]);

/** What is free on the nodes of the partitions. */
export interface FreeResources {
  readonly cpus: number;
  readonly ramMb: number;
  /** By type; `gpu`: without a type. */
  readonly gpus: ReadonlyMap<string, number>;
}

/** @param text of `scontrol --details --oneliner show node` */
export function parseFree(text: string, partitions: readonly string[]): FreeResources {
  let cpus = 0;
  let ramMb = 0;
  const gpus = new Map<string, number>();
  for (const line of text.split('\n')) {
    const field = (name: string): string => new RegExp(`(?:^|\\s)${name}=(\\S*)`).exec(line)?.[1] ?? '';
    const states = field('State').split('+');
    const isOurs = field('Partitions')
      .split(',')
      .some((name) => partitions.includes(name));
    if (!isOurs || states.some(isUnusable)) continue;
    const total = Number(field('CPUEfctv') || field('CPUTot')) || 0;
    cpus += Math.max(0, total - (Number(field('CPUAlloc')) || 0));
    ramMb += Math.max(0, (Number(field('RealMemory')) || 0) - (Number(field('AllocMem')) || 0));
    for (const [type, count] of parseGpus(field('Gres'))) gpus.set(type, (gpus.get(type) ?? 0) + count);
    for (const [type, count] of parseGpus(field('GresUsed'))) gpus.set(type, (gpus.get(type) ?? 0) - count);
  }
  return { cpus, ramMb, gpus };
}

/** A node that does not answer has a star behind its state. */
function isUnusable(state: string): boolean {
  return state.endsWith('*') || UNUSABLE.has(state.replace(/[^A-Z_]+$/, ''));
}

/**
 * What the jobs of a launcher could have: what is free, and what they hold.
 * @param vramByType the types of GPUs that runs may have
 */
export function capacityOf(
  free: FreeResources,
  jobs: readonly SlurmJob[],
  vramByType: ReadonlyMap<string, number>,
): Resources {
  const holding = jobs.filter((job) => !hasEnded(job) && !isWaiting(job));
  const sum = (of: (job: SlurmJob) => number): number => holding.reduce((total, job) => total + of(job), 0);
  const gpus: Gpu[] = [];
  for (const [type, vramMb] of vramByType) {
    const count = (free.gpus.get(type) ?? 0) + sum((job) => job.gpus.get(type) ?? 0);
    const tags = type === 'gpu' ? [] : [type];
    for (let index = 0; index < count; index += 1) gpus.push({ id: gpus.length, vramMb, tags });
  }
  return {
    cpuCores: free.cpus + sum(({ cpus }) => cpus),
    ramMb: free.ramMb + sum(({ ramMb }) => ramMb),
    gpus,
  };
}
