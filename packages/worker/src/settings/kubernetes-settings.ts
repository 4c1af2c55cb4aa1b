import { matching } from '@longshore/common/settings/settings-reader';
import {
  imagePatterns,
  isTag,
  listOf,
  mapOf,
  number,
  oneOf,
  optional,
  path,
  text,
  type SettingsOf,
} from './setting-table.js';

/** A taint that pods tolerate. */
interface Toleration {
  readonly key: string;
  readonly operator: 'Exists' | 'Equal';
  readonly value?: string;
  readonly effect?: string;
}

/** A label of a node. */
interface NodeLabel {
  readonly name: string;
  readonly value: string;
}

const NAME = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/;
const NAMESPACE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;
const LABEL =
  /^(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;
const LABEL_VALUE = /^(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/;
const IMAGE = /^[^\s\p{Cc}]{1,512}$/u;
const EFFECTS: readonly string[] = ['NoSchedule', 'PreferNoSchedule', 'NoExecute'];

/** Settings of the runtime kubernetes. */
export const KUBERNETES_SETTINGS = {
  namespace: optional(
    'SERVICE_WORKER_KUBERNETES_NAMESPACE',
    { allowed: 'a name of a namespace', check: matching(NAMESPACE) },
    "Namespace of the jobs; when unset, that of the kubeconfig's context or of the worker's own pod, else default.",
  ),
  serviceAccount: optional(
    'SERVICE_WORKER_KUBERNETES_SERVICE_ACCOUNT',
    { allowed: 'a name of a service account', check: matching(NAME) },
    'Service account of the pods, whose token they do not get; when unset, that of the namespace.',
  ),
  helperImage: text(
    'SERVICE_WORKER_KUBERNETES_HELPER_IMAGE',
    {
      default: 'docker.io/library/busybox:stable',
      allowed: 'an image with sh, cp, chmod, chown, ls, stat and base64',
      check: matching(IMAGE),
    },
    'Image of the containers that copy the inputs and print the outputs.',
  ),
  filesImage: optional(
    'SERVICE_WORKER_KUBERNETES_FILES_IMAGE',
    { allowed: "an image of Longshore's worker", check: matching(IMAGE) },
    'Image of the containers that fetch and store the files of runs (`artifacts`): that of the worker; when unset, other workers get such runs.',
  ),
  pullPolicy: text(
    'SERVICE_WORKER_KUBERNETES_PULL_POLICY',
    {
      default: 'Always',
      allowed: 'Always, IfNotPresent or Never',
      check: oneOf('Always', 'IfNotPresent', 'Never'),
    },
    'Pull policy of the images of runs. With another one than Always, a run can use an image that the login of another run brought to the node.',
  ),
  pullGraceSeconds: number(
    'SERVICE_WORKER_KUBERNETES_PULL_GRACE',
    { min: 0, max: 86_400, default: 300, of: 'seconds' },
    'Seconds for which the pull of an image may fail before the run does.',
  ),
  pullSecrets: text<readonly string[]>(
    'SERVICE_WORKER_KUBERNETES_PULL_SECRETS',
    {
      allowed: 'a comma-separated list of up to 20 names of Secrets',
      check: listOf(20, matching(NAME)),
      unset: [],
    },
    'Secrets of the namespace with logins at registries, for all pods.',
  ),
  priorityClass: optional(
    'SERVICE_WORKER_KUBERNETES_PRIORITY_CLASS',
    { allowed: 'a name of a priority class', check: matching(NAME) },
    'Priority class of the pods.',
  ),
  tolerations: text<readonly Toleration[]>(
    'SERVICE_WORKER_KUBERNETES_TOLERATIONS',
    {
      allowed: 'a comma-separated list of up to 20 taints as KEY, KEY:EFFECT, KEY=VALUE or KEY=VALUE:EFFECT',
      check: listOf(20, parseToleration),
      unset: [],
    },
    'Taints of nodes that the pods tolerate.',
  ),
  mountImages: optional(
    'SERVICE_WORKER_KUBERNETES_MOUNT_IMAGES',
    {
      allowed: 'a comma-separated list of up to 100 patterns such as ghcr.io/acme/*',
      check: imagePatterns,
    },
    'Images whose runs may have mounts and files, as SERVICE_WORKER_IMAGES names them; when unset, all. The launcher cannot look into images for links.',
  ),
  tags: text<ReadonlyMap<string, NodeLabel>>(
    'SERVICE_WORKER_KUBERNETES_TAGS',
    {
      allowed: 'a comma-separated list of up to 100 entries TAG=LABEL:VALUE',
      check: mapOf(100, parseTag),
      unset: new Map(),
    },
    'Tags that runs can require, each with the label of the nodes that have it.',
  ),
  vramLabel: text(
    'SERVICE_WORKER_KUBERNETES_VRAM_LABEL',
    { default: 'nvidia.com/gpu.memory', allowed: 'a name of a label', check: matching(LABEL) },
    'Label of nodes with the memory of each of their GPUs in MB.',
  ),
  podTemplate: path(
    'SERVICE_WORKER_KUBERNETES_POD_TEMPLATE',
    'YAML file with metadata and spec that are merged into the template of every pod.',
  ),
};

export type KubernetesSettings = SettingsOf<typeof KUBERNETES_SETTINGS>;

function parseToleration(entry: string): Toleration | undefined {
  const [, key = '', value, effect] = /^([^=:]+)(?:=([^:]*))?(?::([^:]+))?$/.exec(entry) ?? [];
  if (!LABEL.test(key) || (effect !== undefined && !EFFECTS.includes(effect))) return undefined;
  const rest = effect === undefined ? {} : { effect };
  if (value === undefined) return { key, operator: 'Exists', ...rest };
  return LABEL_VALUE.test(value) ? { key, operator: 'Equal', value, ...rest } : undefined;
}

function parseTag(entry: string): [string, NodeLabel] | undefined {
  const [, tag = '', name = '', value = ''] = /^([^=]+)=([^:]+):([^:]*)$/.exec(entry) ?? [];
  return isTag(tag) && LABEL.test(name) && LABEL_VALUE.test(value) ? [tag, { name, value }] : undefined;
}
