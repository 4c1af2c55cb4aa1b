import { NEW_RUN } from '../../runs/machine/decide.fixtures.js';
import { createRun } from '../../runs/machine/run.js';
import { type Claimant, type HeldRun, type QueuedRun, type Shape } from '../../runs/scheduling-strategy.js';

/** The current time of the specs. */
export const NOW = new Date('2026-01-01T00:00:00.000Z');

export const ago = (seconds: number): Date => new Date(NOW.getTime() - seconds * 1000);

/** A shape without requirements. */
export const NOTHING: Shape = { cpuMillis: 0, ramMb: 0, vramMb: 0, gpus: 0 };

/** Amounts of resources, with CPUs as whole cores. */
export type Amounts = Partial<Omit<Shape, 'cpuMillis'>> & { readonly cpu?: number };

/** The shape with these amounts, and nothing else. */
export function shape({ cpu = 0, ...amounts }: Amounts): Shape {
  return { ...NOTHING, cpuMillis: cpu * 1000, ...amounts };
}

/** A worker that claims; its GPUs are given by their memory and numbered from 0. */
export function claimant(
  id: string,
  has: {
    readonly cpu?: number;
    readonly ramMb?: number;
    readonly gpus?: readonly number[];
    readonly tags?: readonly (readonly string[])[];
  } = {},
  held: readonly HeldRun[] = [],
): Claimant {
  const { cpu = 0, ramMb = 0, gpus = [], tags = [] } = has;
  return {
    id,
    cpuCores: cpu,
    ramMb,
    gpus: gpus.map((vramMb, i) => ({ id: i, vramMb, tags: tags[i] ?? [] })),
    tags: [],
    capabilities: [],
    held,
  };
}

/** An assigned run. */
export function heldBy(
  workerId: string,
  runId: string,
  {
    gpuId = null,
    gpuIds = [gpuId ?? []].flat(),
    ...takes
  }: Amounts & { readonly gpuId?: number | null; readonly gpuIds?: readonly number[] },
): HeldRun {
  return { runId, workerId, ...shape(takes), gpuIds };
}

/** A run in the queue. */
export function queued(
  id: string,
  { gpus = 0, ...asks }: Amounts = {},
  more: Partial<QueuedRun> = {},
): QueuedRun {
  const fresh = {
    ...NEW_RUN,
    id,
    attemptId: `attempt-of-${id}`,
    maxAttempts: 1,
    topic: null,
    ...(gpus > 0 && { extraConstraints: { gpus } }),
  };
  return { ...createRun({ ...fresh, ...asks }, NOW), passedOverAt: null, reservedFor: null, ...more };
}
