import type { Gpu, Resources } from '@longshore/worker/service-api/service-api';
import type { KubernetesApi } from '../api/kubernetes-api.js';
import type { Node, Pod, PodSpec } from '../api/resources.js';
import type { KubernetesSettings } from '@longshore/worker/settings/kubernetes-settings';
import { weaknessesOf } from './node-versions.js';
import { GPU_PRODUCT_LABEL, GPU_RESOURCE, gpuTag } from '../manifest/names.js';

/** GPUs that are reported at most. */
const MOST_GPUS = 64;

const MB = 2 ** 20;

interface CapacityOptions {
  /** What decides to which nodes pods of runs are scheduled. */
  readonly template: Pick<PodSpec, 'tolerations' | 'nodeSelector'>;
  readonly vramLabel: string;
  /** Labels of nodes by the tag that their GPUs have. */
  readonly tags: KubernetesSettings['tags'];
  /** Whether the pod belongs to this launcher: what it uses counts as free. */
  readonly isOwn: (pod: Pod) => boolean;
}

interface Amount {
  cpu: number;
  bytes: number;
  gpus: number;
}

/** What a cluster has for the pods of runs. */
export interface ClusterCapacity {
  readonly resources: Resources;
  /** The product of GPUs, as a label of nodes has it, by the tag that they are reported with. */
  readonly gpuProducts: ReadonlyMap<string, string>;
  /** What {@link weaknessesOf} says of the nodes. */
  readonly weaknesses: string | null;
}

/** Reads nodes and pods of the whole cluster, page by page. */
export async function readCapacity(api: KubernetesApi, options: CapacityOptions): Promise<ClusterCapacity> {
  const { items: nodes } = await api.list<Node>('/api/v1/nodes');
  const free = new Map<string, { readonly node: Node; readonly amount: Amount }>();
  const selected = nodes.filter((each) => isSelected(each, options.template));
  for (const node of selected.filter(isReady))
    free.set(node.metadata?.name ?? '', { node, amount: amountOf(node.status?.allocatable) });
  const active = { fieldSelector: 'status.phase!=Succeeded,status.phase!=Failed' };
  for await (const { items = [] } of api.pages<Pod>('/api/v1/pods', active)) {
    for (const pod of items) {
      const left = free.get(pod.spec?.nodeName ?? '')?.amount;
      if (left === undefined || options.isOwn(pod)) continue;
      const used = requestsOf(pod.spec);
      left.cpu -= used.cpu;
      left.bytes -= used.bytes;
      left.gpus -= used.gpus;
    }
  }
  const left = [...free.values()];
  const products = left.flatMap(({ node }) => node.metadata?.labels?.[GPU_PRODUCT_LABEL] ?? []);
  return {
    resources: {
      cpuCores: Math.floor(left.reduce((sum, { amount }) => sum + Math.max(0, amount.cpu), 0) + 1e-6),
      ramMb: Math.floor(left.reduce((sum, { amount }) => sum + Math.max(0, amount.bytes), 0) / MB),
      gpus: gpusOf(left, options),
    },
    gpuProducts: new Map(products.map((product) => [gpuTag(product), product])),
    weaknesses: weaknessesOf(selected),
  };
}

/** What {@link weaknessesOf} says of the nodes that pods of runs can be scheduled to. */
export async function readWeaknesses(
  api: KubernetesApi,
  template: CapacityOptions['template'],
): Promise<string | null> {
  const { items: nodes } = await api.list<Node>('/api/v1/nodes');
  return weaknessesOf(nodes.filter((each) => isSelected(each, template)));
}

function isReady({ spec, status }: Node): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status === 'True' && spec?.unschedulable !== true;
}

/** Whether pods of runs can be scheduled to the node when it is ready. */
function isSelected(
  { metadata, spec }: Node,
  { tolerations = [], nodeSelector = {} }: CapacityOptions['template'],
): boolean {
  const hasLabels = Object.entries(nodeSelector).every(([name, value]) => metadata?.labels?.[name] === value);
  if (!hasLabels) return false;
  return (spec?.taints ?? []).every(
    (taint) =>
      taint.effect === 'PreferNoSchedule' ||
      tolerations.some(
        ({ key, operator, value, effect }) =>
          (key === taint.key || (!key && operator === 'Exists')) &&
          (!effect || effect === taint.effect) &&
          (operator === 'Exists' || (value ?? '') === (taint.value ?? '')),
      ),
  );
}

/** What the scheduler counts: all containers together, or an init container that needs more. */
function requestsOf(spec: PodSpec | undefined): Amount {
  const sum = amountOf(spec?.overhead);
  for (const { resources } of spec?.containers ?? []) add(sum, amountOf(resources?.requests));
  for (const { resources, restartPolicy } of spec?.initContainers ?? []) {
    const used = amountOf(resources?.requests);
    // An init container that goes on beside the others.
    if (restartPolicy === 'Always') add(sum, used);
    else {
      sum.cpu = Math.max(sum.cpu, used.cpu);
      sum.bytes = Math.max(sum.bytes, used.bytes);
      sum.gpus = Math.max(sum.gpus, used.gpus);
    }
  }
  return sum;
}

function add(sum: Amount, more: Amount): void {
  sum.cpu += more.cpu;
  sum.bytes += more.bytes;
  sum.gpus += more.gpus;
}

function amountOf(quantities: Readonly<Record<string, string>> | undefined): Amount {
  return {
    cpu: parseQuantity(quantities?.['cpu']),
    bytes: parseQuantity(quantities?.['memory']),
    gpus: parseQuantity(quantities?.[GPU_RESOURCE]),
  };
}

/** The ids are only places in this list. */
function gpusOf(
  left: readonly { readonly node: Node; readonly amount: Amount }[],
  { vramLabel, tags: mapped }: Pick<CapacityOptions, 'vramLabel' | 'tags'>,
): readonly Gpu[] {
  const gpus = left.flatMap(({ node: { metadata }, amount }) => {
    const labels = metadata?.labels ?? {};
    const vramMb = Number(labels[vramLabel]);
    if (!Number.isSafeInteger(vramMb) || vramMb <= 0) return [];
    const product = labels[GPU_PRODUCT_LABEL];
    const ofNode = [...mapped].flatMap(([tag, { name, value }]) => (labels[name] === value ? [tag] : []));
    const tags = [...new Set([...(product === undefined ? [] : [gpuTag(product)]), ...ofNode])];
    return Array.from({ length: Math.min(MOST_GPUS, Math.max(0, Math.floor(amount.gpus))) }, () => ({
      vramMb,
      tags,
    }));
  });
  const largestFirst = gpus.toSorted((a, b) => b.vramMb - a.vramMb).slice(0, MOST_GPUS);
  return largestFirst.map((gpu, id) => ({ id, ...gpu }));
}

const FACTORS: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** A quantity such as `500m`, `2`, `1e3` or `64Mi` as a number; 0 when there is none or it cannot be read. */
export function parseQuantity(text: string | undefined): number {
  const [, digits = '', suffix = ''] = /^([+-]?[\d.]+(?:[eE][+-]?\d+)?)([A-Za-z]*)$/.exec(text ?? '') ?? [];
  const value = Number(digits) * (FACTORS[suffix] ?? Number.NaN);
  return Number.isFinite(value) ? value : 0;
}
