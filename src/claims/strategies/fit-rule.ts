import type { ClaimingWorker, Needs, Obstacle, Shape } from '../../runs/scheduling-strategy.js';
import { freeResources, type FreeGpu, type FreeResources } from '../../workers/free-resources.js';

const NONE: readonly Obstacle[] = [];

/** Whether a run fits the resources. */
export function fitsInto(free: FreeResources, needs: Needs): boolean {
  return (
    needs.cpuMillis <= free.cpuMillis && needs.ramMb <= free.ramMb && chooseGpus(free, needs) !== undefined
  );
}

/** The resources that a worker lacks for a run; empty if it fits. @param free of the worker */
export function shortages(worker: ClaimingWorker, free: FreeResources, needs: Needs): readonly Obstacle[] {
  if (fitsInto(free, needs)) return NONE;
  const total = freeResources(worker, []);
  return [
    {
      resource: 'cpu',
      needed: needs.cpuMillis / 1000,
      free: free.cpuMillis / 1000,
      total: total.cpuMillis / 1000,
    },
    { resource: 'ram_mb', needed: needs.ramMb, free: free.ramMb, total: total.ramMb },
    needs.gpus > 0
      ? {
          resource: 'gpus',
          needed: needs.gpus,
          free: suitableGpus(free, needs).length,
          total: suitableGpus(total, needs).length,
        }
      : {
          resource: 'vram_mb',
          needed: needs.vramMb,
          free: mostMemory(taggedGpus(free, needs)),
          total: mostMemory(taggedGpus(total, needs)),
        },
  ].filter(({ needed, free: left }) => needed > left);
}

/**
 * The GPUs for a run, those with the least memory that is enough, the first of equals; in the order of their ids. Empty for a
 * run that uses none; undefined: it does not fit.
 */
export function chooseGpus(free: FreeResources, needs: Needs): readonly number[] | undefined {
  if (needs.gpus === 0 && needs.vramMb === 0) return [];
  const count = Math.max(1, needs.gpus);
  const suitable = suitableGpus(free, needs);
  if (suitable.length < count) return undefined;
  const smallest = suitable.toSorted((a, b) => a.vramMb - b.vramMb).slice(0, count);
  return smallest.map(({ id }) => id).toSorted((a, b) => a - b);
}

/** GPUs that the run may use; if it asks for whole ones, those that no other run uses. */
function suitableGpus(free: FreeResources, needs: Needs): FreeGpu[] {
  return taggedGpus(free, needs).filter(
    ({ vramMb, isIdle }) => vramMb >= needs.vramMb && (isIdle || needs.gpus === 0),
  );
}

function taggedGpus({ gpus }: FreeResources, { gpuTags = [] }: Needs): readonly FreeGpu[] {
  return gpuTags.length === 0 ? gpus : gpus.filter(({ tags }) => gpuTags.every((tag) => tags.includes(tag)));
}

/**
 * The most that one run can get, so that a run without GPU tags fits the resources exactly when it fits one of the shapes.
 * @param withGpus whether the run may ask for whole GPUs
 */
export function largestShapes({ cpuMillis, ramMb, gpus }: FreeResources, withGpus: boolean): Shape[] {
  const most = mostMemory(gpus);
  const idle = withGpus ? gpus.filter(({ isIdle }) => isIdle) : [];
  const memories = idle.map(({ vramMb }) => vramMb).toSorted((a, b) => b - a);
  const whole = memories.flatMap((vramMb, i) =>
    vramMb === memories[i + 1] ? [] : [{ cpuMillis, ramMb, vramMb, gpus: i + 1 }],
  );
  // A run that takes a share fits where one does that takes the whole GPU.
  return whole[0]?.vramMb === most ? whole : [{ cpuMillis, ramMb, vramMb: most, gpus: 0 }, ...whole];
}

function mostMemory(gpus: readonly FreeGpu[]): number {
  return gpus.reduce((most, { vramMb }) => Math.max(most, vramMb), 0);
}

/** How many runs of the shape fit side by side; Infinity for a shape without requirements. */
export function countFitting(free: FreeResources, shape: Shape): number {
  const gpus = suitableGpus(free, shape);
  const shares = gpus.reduce((sum, { vramMb }) => sum + times(vramMb, shape.vramMb), 0);
  const onGpus = shape.gpus > 0 ? times(gpus.length, shape.gpus) : shape.vramMb === 0 ? Infinity : shares;
  return Math.min(times(free.cpuMillis, shape.cpuMillis), times(free.ramMb, shape.ramMb), onGpus);
}

function times(free: number, each: number): number {
  return each === 0 ? Infinity : Math.floor(free / each);
}
