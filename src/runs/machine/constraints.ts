import type { Run } from './run.js';

/** The part of a run that says which resources it asks for. */
export type ConstrainedRun = Pick<Run, 'cpu' | 'extraConstraints'>;

/** Thousandths of a core that the run asks for; 0: any number. */
export function cpuMillisOf({ cpu, extraConstraints }: ConstrainedRun): number {
  return extraConstraints?.cpu_millis ?? cpu * 1000;
}

/** GPUs that the run asks for and no other run may use. */
export function gpusOf({ extraConstraints }: Pick<Run, 'extraConstraints'>): number {
  return extraConstraints?.gpus ?? 0;
}

/** Tags that each GPU of the run must have. */
export function gpuTagsOf({ extraConstraints }: Pick<Run, 'extraConstraints'>): readonly string[] {
  return extraConstraints?.gpu_selector ?? [];
}

/** A list of GPUs as it is stored; null for an empty one. */
export function joinGpuIds(ids: readonly number[]): string | null {
  return ids.length === 0 ? null : ids.join(',');
}

/** The GPUs of a stored list. */
export function readGpuIds(joined: string): number[] {
  return joined.split(',').map(Number);
}
