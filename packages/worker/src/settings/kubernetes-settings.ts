import type { Setting } from '@longshore/common/settings/setting';
import {
  matching,
  partsOf,
  within,
  type SettingsReader,
  type SettingValue,
} from '@longshore/common/settings/settings-reader';

/** Settings of the runtime kubernetes, in the order in which help shows them. */
export const KUBERNETES_SETTINGS = [
  {
    field: 'kubernetesNamespace',
    env: 'SERVICE_WORKER_KUBERNETES_NAMESPACE',
    flag: 'kubernetes-namespace',
    kind: 'text',
    allowed: 'a name of a namespace',
    description:
      "Namespace of the jobs; when unset, that of the kubeconfig's context or of the worker's own pod, else default.",
  },
  {
    field: 'kubernetesServiceAccount',
    env: 'SERVICE_WORKER_KUBERNETES_SERVICE_ACCOUNT',
    flag: 'kubernetes-service-account',
    kind: 'text',
    allowed: 'a name of a service account',
    description:
      'Service account of the pods, whose token they do not get; when unset, that of the namespace.',
  },
  {
    field: 'kubernetesHelperImage',
    env: 'SERVICE_WORKER_KUBERNETES_HELPER_IMAGE',
    flag: 'kubernetes-helper-image',
    kind: 'text',
    default: 'docker.io/library/busybox:stable',
    allowed: 'an image with sh, cp, chmod, wc and base64',
    description: 'Image of the containers that copy the inputs and print the outputs.',
  },
  {
    field: 'kubernetesPullPolicy',
    env: 'SERVICE_WORKER_KUBERNETES_PULL_POLICY',
    flag: 'kubernetes-pull-policy',
    kind: 'text',
    default: 'Always',
    allowed: 'Always, IfNotPresent or Never',
    description:
      'Pull policy of the images of runs. With another one than Always, a run can use an image that the login of another run brought to the node.',
  },
  {
    field: 'kubernetesPullGrace',
    env: 'SERVICE_WORKER_KUBERNETES_PULL_GRACE',
    flag: 'kubernetes-pull-grace',
    kind: 'number',
    default: '300',
    allowed: 'a number of seconds from 0 to 86400',
    description: 'Seconds for which the pull of an image may fail before the run does.',
  },
  {
    field: 'kubernetesPullSecrets',
    env: 'SERVICE_WORKER_KUBERNETES_PULL_SECRETS',
    flag: 'kubernetes-pull-secrets',
    kind: 'text',
    allowed: 'a comma-separated list of up to 20 names of Secrets',
    description: 'Secrets of the namespace with logins at registries, for all pods.',
  },
  {
    field: 'kubernetesPriorityClass',
    env: 'SERVICE_WORKER_KUBERNETES_PRIORITY_CLASS',
    flag: 'kubernetes-priority-class',
    kind: 'text',
    allowed: 'a name of a priority class',
    description: 'Priority class of the pods.',
  },
  {
    field: 'kubernetesTolerations',
    env: 'SERVICE_WORKER_KUBERNETES_TOLERATIONS',
    flag: 'kubernetes-tolerations',
    kind: 'text',
    allowed: 'a comma-separated list of up to 20 taints as KEY, KEY:EFFECT, KEY=VALUE or KEY=VALUE:EFFECT',
    description: 'Taints of nodes that the pods tolerate.',
  },
  {
    field: 'kubernetesTags',
    env: 'SERVICE_WORKER_KUBERNETES_TAGS',
    flag: 'kubernetes-tags',
    kind: 'text',
    allowed: 'a comma-separated list of up to 100 entries TAG=LABEL:VALUE',
    description: 'Tags that runs can require, each with the label of the nodes that have it.',
  },
  {
    field: 'kubernetesVramLabel',
    env: 'SERVICE_WORKER_KUBERNETES_VRAM_LABEL',
    flag: 'kubernetes-vram-label',
    kind: 'text',
    default: 'nvidia.com/gpu.memory',
    allowed: 'a name of a label',
    description: 'Label of nodes with the memory of each of their GPUs in MB.',
  },
  {
    field: 'kubernetesPodTemplate',
    env: 'SERVICE_WORKER_KUBERNETES_POD_TEMPLATE',
    flag: 'kubernetes-pod-template',
    kind: 'text',
    allowed: 'a path',
    description: 'YAML file with metadata and spec that are merged into the template of every pod.',
  },
] as const satisfies readonly Setting[];

export type KubernetesSettingField = (typeof KUBERNETES_SETTINGS)[number]['field'];

/** A taint that pods tolerate. */
export interface Toleration {
  readonly key: string;
  readonly operator: 'Exists' | 'Equal';
  readonly value?: string;
  readonly effect?: string;
}

/** A label of a node. */
export interface NodeLabel {
  readonly name: string;
  readonly value: string;
}

export interface KubernetesSettings {
  /** Null: as the kubeconfig says. */
  readonly namespace: string | null;
  /** Null: that of the namespace. */
  readonly serviceAccount: string | null;
  readonly helperImage: string;
  readonly pullPolicy: PullPolicy;
  /** How long an image may be unavailable. */
  readonly pullGraceSeconds: number;
  readonly pullSecrets: readonly string[];
  /** Null: none. */
  readonly priorityClass: string | null;
  readonly tolerations: readonly Toleration[];
  /** By tag. */
  readonly tags: ReadonlyMap<string, NodeLabel>;
  readonly vramLabel: string;
  /** Path of a YAML file; null: none. */
  readonly podTemplate: string | null;
}

type PullPolicy = 'Always' | 'IfNotPresent' | 'Never';

const NAME = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;
const NAMESPACE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const LABEL =
  /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;
const IMAGE = /^[^\s\p{Cc}]{1,512}$/u;
const EFFECTS: readonly string[] = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

/** Reads the settings of the table above. Refuses values at the reader, which throws later. */
export function readKubernetesSettings(reader: SettingsReader<KubernetesSettingField>): KubernetesSettings {
  return {
    namespace: reader.read('kubernetesNamespace', matching(NAMESPACE), null),
    serviceAccount: reader.read('kubernetesServiceAccount', matching(NAME), null),
    helperImage: reader.read('kubernetesHelperImage', matching(IMAGE), ''),
    pullPolicy: reader.read('kubernetesPullPolicy', parsePullPolicy, 'Always'),
    pullGraceSeconds: reader.read('kubernetesPullGrace', within(0, 86_400), 0),
    pullSecrets: reader.read('kubernetesPullSecrets', (value) => listOf(value, 20, matching(NAME)), []),
    priorityClass: reader.read('kubernetesPriorityClass', matching(NAME), null),
    tolerations: reader.read('kubernetesTolerations', (value) => listOf(value, 20, parseToleration), []),
    tags: reader.read('kubernetesTags', parseTags, new Map<string, NodeLabel>()),
    vramLabel: reader.read('kubernetesVramLabel', matching(LABEL), ''),
    podTemplate: reader.read('kubernetesPodTemplate', String, null),
  };
}

function parsePullPolicy(value: SettingValue): PullPolicy | undefined {
  return value === 'Always' || value === 'IfNotPresent' || value === 'Never' ? value : undefined;
}

/** @returns undefined when an entry is wrong, or when there are none or too many */
function listOf<T>(
  value: SettingValue,
  most: number,
  parse: (entry: string) => T | undefined,
): T[] | undefined {
  const entries = partsOf(value);
  const parsed = entries.map(parse).filter((entry) => entry !== undefined);
  const isFine = entries.length > 0 && entries.length <= most && parsed.length === entries.length;
  return isFine ? parsed : undefined;
}

function parseToleration(text: string): Toleration | undefined {
  const [, key = '', value, effect] = /^([^=:]+)(?:=([^:]*))?(?::([^:]+))?$/.exec(text) ?? [];
  if (!LABEL.test(key) || (effect !== undefined && !EFFECTS.includes(effect))) return undefined;
  const rest = effect === undefined ? {} : { effect };
  if (value === undefined) return { key, operator: 'Exists', ...rest };
  return LABEL_VALUE.test(value) ? { key, operator: 'Equal', value, ...rest } : undefined;
}

function parseTags(value: SettingValue): ReadonlyMap<string, NodeLabel> | undefined {
  const entries = listOf(value, 100, parseTag);
  return entries === undefined ? undefined : new Map(entries);
}

function parseTag(text: string): [string, NodeLabel] | undefined {
  const [, tag = '', name = '', value = ''] = /^([^=]{1,128})=([^:]+):([^:]*)$/.exec(text) ?? [];
  const isFine = tag !== '' && !/\p{Cc}/u.test(tag) && LABEL.test(name) && LABEL_VALUE.test(value);
  return isFine ? [tag, { name, value }] : undefined;
}
