import { v5 as uuidV5 } from 'uuid';
import { capabilitiesOfConstraints } from '@longshore/common/capabilities';
import { gpuTagsOf, type RunRecord } from './machine/run.js';
import { neededCapabilities } from './options/option-values.js';

/** What a worker must have to get a run, and what a worker has of it. */
export interface Requirements {
  readonly tags: readonly string[];
  readonly capabilities: readonly string[];
  /** Tags of GPUs; of a worker those that any of its GPUs has. */
  readonly gpuTags: readonly string[];
}

/** What a worker says of itself that requirements are about. */
export type DescribedWorker = Omit<Requirements, 'gpuTags'> & {
  readonly gpus: readonly { readonly tags: readonly string[] }[];
};

const TAG = 'tag:';
const CAPABILITY = 'capability:';
const GPU_TAG = 'gpu:';

const NAMESPACE = '0f6f5f0e-6a0a-4b55-9c0b-5f2b0d1c7a51';

/** The fields of a run that its requirements depend on. */
export const REQUIRING_FIELDS = [
  'selector',
  'options',
  'cpu',
  'extraConstraints',
] as const satisfies readonly (keyof RunRecord)[];

/** What the requirements of a run depend on. */
export type RequiringRun = Pick<RunRecord, (typeof REQUIRING_FIELDS)[number]>;

/** What the run requires of its worker. */
export function requirementsOf(run: RequiringRun): Requirements {
  const { cpu, extraConstraints } = run;
  const ofConstraints = capabilitiesOfConstraints({ cpu, ...extraConstraints });
  const capabilities = [...neededCapabilities(run.options), ...ofConstraints];
  return { tags: run.selector ?? [], capabilities, gpuTags: gpuTagsOf(run) };
}

/** What a worker has of it. */
export function offeredBy({ tags, capabilities, gpus }: DescribedWorker): Requirements {
  return { tags, capabilities, gpuTags: gpus.flatMap((gpu) => gpu.tags) };
}

/** The requirements as a sorted list without repetitions: `tag:NAME`, `capability:NAME`, `gpu:NAME` for a tag of GPUs. */
export function requirementList({ tags, capabilities, gpuTags }: Requirements): string[] {
  const all = [
    ...tags.map((tag) => TAG + tag),
    ...capabilities.map((name) => CAPABILITY + name),
    ...gpuTags.map((tag) => GPU_TAG + tag),
  ];
  return [...new Set(all)].toSorted();
}

/** The requirements of a `requirementList`. */
export function requirementsOfList(list: readonly string[]): Requirements {
  const named = (prefix: string): string[] =>
    list.flatMap((one) => (one.startsWith(prefix) ? [one.slice(prefix.length)] : []));
  return { tags: named(TAG), capabilities: named(CAPABILITY), gpuTags: named(GPU_TAG) };
}

/** The same id for equal requirements in every process; null when there are none: any worker may get the run. */
export function requirementIdOf(requirements: Requirements): string | null {
  const list = requirementList(requirements);
  return list.length === 0 ? null : uuidV5(JSON.stringify(list), NAMESPACE);
}

/** What is lacking of the requirements. @param offer of a worker */
export function missingOf(offer: Requirements, { tags, capabilities, gpuTags }: Requirements): Requirements {
  return {
    tags: tags.filter((tag) => !offer.tags.includes(tag)),
    capabilities: capabilities.filter((name) => !offer.capabilities.includes(name)),
    gpuTags: gpuTags.filter((tag) => !offer.gpuTags.includes(tag)),
  };
}

/** Whether a worker has all that is required. */
export function meets(offer: Requirements, requirements: Requirements): boolean {
  return requirementList(missingOf(offer, requirements)).length === 0;
}
