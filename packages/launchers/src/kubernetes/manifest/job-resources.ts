import type { JobSpec } from '../../launcher/engine.js';
import { RunFault } from '@longshore/worker/runtime/runtime';
import type { Constraints } from '@longshore/worker/service-api/constraints';
import type { KubernetesSettings } from '@longshore/worker/settings/kubernetes-settings';
import type { PodSpec } from '../api/resources.js';
import { GPU_PRODUCT_LABEL, GPU_RESOURCE } from './names.js';

type Quantities = Readonly<Record<string, string>>;

/** What the container requests: a GPU is of one pod alone, also where the run wants a share. Without a request, the cluster would take the limit for it. */
export function resourcesOf({ cpuMillis, cpuLimitMillis, ramMb, vramMb, gpus, gpuIds }: Constraints): {
  readonly requests: Quantities;
  readonly limits: Quantities;
} {
  const count = gpus > 0 ? gpus : vramMb > 0 || gpuIds.length > 0 ? 1 : 0;
  const both = {
    ...(ramMb === 0 ? {} : { memory: `${ramMb}Mi` }),
    ...(count === 0 ? {} : { [GPU_RESOURCE]: String(count) }),
  };
  return {
    requests: { ...(cpuMillis > 0 || cpuLimitMillis > 0 ? { cpu: coresOf(cpuMillis) } : {}), ...both },
    limits: { ...(cpuLimitMillis > 0 ? { cpu: coresOf(cpuLimitMillis) } : {}), ...both },
  };
}

function coresOf(millis: number): string {
  return millis % 1000 === 0 ? String(millis / 1000) : `${millis}m`;
}

/** Requires nodes whose GPUs have the memory. */
export function affinityOf({ vramMb }: Constraints, label: string): Pick<PodSpec, 'affinity'> {
  if (vramMb === 0) return {};
  const term = { matchExpressions: [{ key: label, operator: 'Gt', values: [String(vramMb - 1)] }] };
  const required = { nodeSelectorTerms: [term] };
  return { affinity: { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } } };
}

/** @throws RunFault when two tags need different values of one label, or nothing says which nodes have a GPU's tag */
export function nodeSelectorOf(
  { selector, constraints: { gpuSelector } }: JobSpec,
  { tags }: KubernetesSettings,
  gpuProducts: ReadonlyMap<string, string>,
): Record<string, string> {
  const ofGpus = gpuSelector.map((tag) => {
    const product = gpuProducts.get(tag);
    const label =
      tags.get(tag) ?? (product === undefined ? undefined : { name: GPU_PRODUCT_LABEL, value: product });
    if (label !== undefined) return label;
    throw new RunFault(`No node of the cluster has GPUs with the tag '${tag}'`);
  });
  const ofWorker = selector.flatMap((tag) => tags.get(tag) ?? []);
  const chosen = new Map<string, string>();
  for (const { name, value } of [...ofWorker, ...ofGpus]) {
    if ((chosen.get(name) ?? value) !== value)
      throw new RunFault(
        `No node has all tags of the run: they need different values of the label '${name}'`,
      );
    chosen.set(name, value);
  }
  return Object.fromEntries(chosen);
}

/** Size of /dev/shm, which counts as memory of the container; 0: that of the node. */
export function shmMbOf({ constraints: { shmMb, ramMb } }: JobSpec): number {
  return shmMb ?? ramMb;
}
