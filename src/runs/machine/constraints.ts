import type { Run } from './run.js';

/** The part of a run that says which resources it asks for. */
export type ConstrainedRun = Pick<Run, 'cpu' | 'extraConstraints'>;

/** Thousandths of a core that the run asks for; 0: any number. */
export function cpuMillisOf({ cpu, extraConstraints }: ConstrainedRun): number {
  return extraConstraints?.cpu_millis ?? cpu * 1000;
}

/** What a worker must be able to do for constraints that not every worker can keep. */
export function capabilitiesOfConstraints(run: ConstrainedRun): string[] {
  const { cpu_limit_millis: limit, shm_mb: shmMb } = run.extraConstraints ?? {};
  const request = cpuMillisOf(run);
  const isExact = request % 1000 !== 0 || (limit !== undefined && limit !== request);
  return [...(isExact ? ['cpu_millis'] : []), ...(shmMb === undefined ? [] : ['shm'])];
}
