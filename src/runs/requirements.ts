import { v5 as uuidV5 } from 'uuid';
import { capabilitiesOfConstraints } from '@longshore/common/capabilities';
import { gpusOf, gpuTagsOf, type RunRecord } from './machine/run.js';
import { neededCapabilities } from './options/stored-options.js';

/** GPUs that one worker must have at all: so many, each with this memory in MB. */
export interface RequiredGpus {
  readonly count: number;
  readonly vramMb: number;
}

/** What a worker must have to get a run, whether or not it is free. */
export interface Requirements {
  readonly tags: readonly string[];
  readonly capabilities: readonly string[];
  /** Tags that each of its GPUs must have. */
  readonly gpuTags: readonly string[];
  /** Null: none, or only a share of the memory of any GPU, which the scheduling strategy decides about. */
  readonly gpus: RequiredGpus | null;
}

/** What a worker says of itself that requirements are about. */
export interface DescribedWorker {
  readonly tags: readonly string[];
  readonly capabilities: readonly string[];
  readonly gpus: readonly { readonly vramMb: number; readonly tags: readonly string[] }[];
}

const TAG = 'tag:';
const CAPABILITY = 'capability:';
const GPU_TAG = 'gpu:';
/** `gpus:COUNT:MB`. */
const GPUS = 'gpus:';

const NAMESPACE = '0f6f5f0e-6a0a-4b55-9c0b-5f2b0d1c7a51';

/** What the requirements of a run depend on. */
export type RequiringRun = Pick<RunRecord, 'selector' | 'options' | 'cpu' | 'vramMb' | 'extraConstraints'>;

/** What the run requires of its worker. */
export function requirementsOf(run: RequiringRun): Requirements {
  const { cpu, vramMb, extraConstraints } = run;
  const ofConstraints = capabilitiesOfConstraints({ cpu, ...extraConstraints });
  const capabilities = [...neededCapabilities(run.options), ...ofConstraints];
  const gpuTags = gpuTagsOf(run);
  const count = Math.max(gpusOf(run), Math.sign(gpuTags.length));
  return { tags: run.selector ?? [], capabilities, gpuTags, gpus: count === 0 ? null : { count, vramMb } };
}

/**
 * The requirements as a sorted list without repetitions: `tag:NAME`, `capability:NAME`, `gpu:NAME` for a tag of GPUs, and
 * `gpus:COUNT:MB`.
 */
export function requirementList({ tags, capabilities, gpuTags, gpus }: Requirements): string[] {
  const all = [
    ...tags.map((tag) => TAG + tag),
    ...capabilities.map((name) => CAPABILITY + name),
    ...gpuTags.map((tag) => GPU_TAG + tag),
    ...(gpus === null ? [] : [`${GPUS}${gpus.count}:${gpus.vramMb}`]),
  ];
  return [...new Set(all)].toSorted();
}

/** The requirements of a `requirementList`. */
export function requirementsOfList(list: readonly string[]): Requirements {
  const named = (prefix: string): string[] =>
    list.flatMap((one) => (one.startsWith(prefix) ? [one.slice(prefix.length)] : []));
  const [count = 0, vramMb = 0] = named(GPUS)[0]?.split(':').map(Number) ?? [];
  const gpus = count === 0 ? null : { count, vramMb };
  return { tags: named(TAG), capabilities: named(CAPABILITY), gpuTags: named(GPU_TAG), gpus };
}

/** The same id for equal requirements in every process; null when there are none: any worker may get the run. */
export function requirementIdOf(requirements: Requirements): string | null {
  const list = requirementList(requirements);
  return list.length === 0 ? null : uuidV5(JSON.stringify(list), NAMESPACE);
}

/** What a worker has, as elements of `requirementList`: all but the number and memory of GPUs. */
export function elementsOf({ tags, capabilities, gpus }: DescribedWorker): string[] {
  const gpuTags = gpus.flatMap((gpu) => gpu.tags);
  return requirementList({ tags, capabilities, gpuTags, gpus: null });
}

/** Whether an element of `requirementList` is about the number and memory of GPUs, which `suitableGpus` counts. */
export function isAboutGpus(element: string): boolean {
  return element.startsWith(GPUS);
}

/** How many GPUs the worker has that each suffice; infinite when none are required. */
export function suitableGpus(
  { gpus: all }: Pick<DescribedWorker, 'gpus'>,
  { gpus, gpuTags }: Pick<Requirements, 'gpus' | 'gpuTags'>,
): number {
  if (gpus === null) return Infinity;
  return all.filter(({ vramMb, tags }) => vramMb >= gpus.vramMb && gpuTags.every((tag) => tags.includes(tag)))
    .length;
}

/** What a worker lacks of the requirements. */
export function missingOf(worker: DescribedWorker, required: Requirements): Requirements {
  const { tags, capabilities, gpuTags, gpus } = required;
  const lacksGpus = gpus !== null && suitableGpus(worker, required) < gpus.count;
  return {
    tags: tags.filter((tag) => !worker.tags.includes(tag)),
    capabilities: capabilities.filter((name) => !worker.capabilities.includes(name)),
    gpuTags: gpuTags.filter((tag) => !worker.gpus.some((gpu) => gpu.tags.includes(tag))),
    gpus: lacksGpus ? gpus : null,
  };
}

/** Whether a worker has all that is required. */
export function meets(worker: DescribedWorker, requirements: Requirements): boolean {
  return requirementList(missingOf(worker, requirements)).length === 0;
}
