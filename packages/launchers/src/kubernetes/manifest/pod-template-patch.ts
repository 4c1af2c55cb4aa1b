import { readFile } from 'node:fs/promises';
import { RUN_OPTIONS } from '@longshore/client/constants';
import { SettingsError } from '@longshore/common/settings/setting';
import type { JobSpec } from '../../launcher/engine.js';
import { NO_CONSTRAINTS } from '@longshore/worker/service-api/constraints';
import { carriedOptions } from '@longshore/worker/service-api/service-api';
import type { PodSpec } from '../api/resources.js';
import { jobManifest, type JobContext } from './job-manifest.js';
import { GPU_PRODUCT_LABEL } from './names.js';
import { checkMerged, isFields, type Fields } from './template-guard.js';
import { errorText } from '@longshore/common/errors';

/** Lists whose entries are merged by a field of them, as in a strategic merge patch. All other lists are replaced. */
const MERGE_KEYS: Readonly<Record<string, string>> = {
  containers: 'name',
  initContainers: 'name',
  volumes: 'name',
  env: 'name',
  imagePullSecrets: 'name',
  volumeMounts: 'mountPath',
};

/** Names of the fields that the API knows. */
interface KnownFields {
  readonly spec: ReadonlySet<string>;
  readonly container: ReadonlySet<string>;
}

type Patch = JobContext['patch'];

const SAMPLE_VALUES = {
  map: { SAMPLE: 'value' },
  list: ['sample'],
  'object-list': [],
  'object-map': {},
  'record-list': [],
  text: 'sample',
  integer: 1,
  integers: { nofile: 1024 },
} as const;

/** A run that uses everything that the launcher can put into a template. */
const SAMPLE: JobSpec = {
  ...carriedOptions(
    Object({
      ...Object.fromEntries(RUN_OPTIONS.map(({ name, kind }) => [name, SAMPLE_VALUES[kind]])),
      name: 'sample',
      labels: { sample: 'value' },
      user: '1:1',
    }),
  ),
  runId: 'sample',
  attempt: 1,
  image: 'sample',
  inputs: {},
  outputTemplate: {},
  constraints: { ...NO_CONSTRAINTS, ramMb: 1, vramMb: 1, cpuMillis: 1000, cpuLimitMillis: 1000 },
  selector: [],
  env: { SAMPLE: 'value' },
  secrets: { SAMPLE_SECRET: 'value' },
  files: [{ path: '/sample', content: '', mode: 0o444, isSecret: false }],
  registry: { server: 'sample', username: 'sample', password: 'sample' },
  trace: null,
  memo: { signedQueries: [], notes: [] },
  artifacts: null,
  signedFiles: null,
};

/** The same where the launcher gives runs files. They are in the same places as in the pods of all runs. */
function sampleFor({ filesImage }: JobContext['settings']): JobSpec {
  return filesImage === null ? SAMPLE : { ...SAMPLE, signedFiles: { in: {}, out: {} } };
}

/**
 * The patch of the operator, which is merged into the template of every pod.
 * @throws SettingsError when the file cannot be used, or removes what the launcher relies on
 */
export async function choosePatch(context: Omit<JobContext, 'patch'>): Promise<Patch> {
  const { podTemplate: path } = context.settings;
  if (path === null) return (template) => template;
  try {
    const { loadYaml, V1PodSpec, V1Container } = await import('@kubernetes/client-node');
    const patch: unknown = loadYaml(await readFile(path, 'utf8'));
    checkPatch(patch, {
      spec: new Set(V1PodSpec.getAttributeTypeMap().map(({ baseName }) => baseName)),
      container: new Set(V1Container.getAttributeTypeMap().map(({ baseName }) => baseName)),
    });
    checkNodeSelector(patch, context.settings.tags);
    const apply: Patch = (template) => ({ ...template, ...mergeFields({ ...template }, patch) });
    const sample =
      jobManifest(sampleFor(context.settings), { ...context, patch: (template) => template }).spec
        ?.template ?? {};
    checkMerged(sample, apply(sample));
    return apply;
  } catch (error) {
    const [why] = errorText(error).split('\n');
    throw new SettingsError([`SERVICE_WORKER_KUBERNETES_POD_TEMPLATE (${path}) cannot be used: ${why}`]);
  }
}

/** What the template of every run says, with the operator's patch. */
export function sampleSpec(context: JobContext): PodSpec | undefined {
  return jobManifest(SAMPLE, context).spec?.template.spec;
}

/** Merges a patch into a value: objects by field, null removes, the lists of `MERGE_KEYS` by entry. */
function mergeFields(target: Fields, patch: Fields): Fields {
  const merged: Record<string, unknown> = { ...target };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete merged[name];
    else merged[name] = mergeValue(merged[name], value, MERGE_KEYS[name]);
  }
  return merged;
}

function mergeValue(target: unknown, patch: unknown, mergeKey: string | undefined): unknown {
  if (Array.isArray(patch))
    return mergeKey !== undefined && Array.isArray(target) ? mergeEntries(target, patch, mergeKey) : patch;
  return isFields(patch) ? mergeFields(isFields(target) ? target : {}, patch) : patch;
}

function mergeEntries(target: readonly unknown[], patch: readonly unknown[], key: string): unknown[] {
  const merged = [...target];
  for (const entry of patch) {
    const at = merged.findIndex((other) => keyIn(other, key) === keyIn(entry, key));
    if (at >= 0) merged[at] = mergeValue(merged[at], entry, undefined);
    else merged.push(entry);
  }
  return merged;
}

function checkPatch(patch: unknown, known: KnownFields): asserts patch is Fields {
  const { metadata = {}, spec = {} } = asFields(patch, 'the file', ['metadata', 'spec']);
  const { labels = {}, annotations = {} } = asFields(metadata, 'metadata', ['labels', 'annotations']);
  for (const [field, texts] of Object.entries({ labels, annotations })) {
    const own = Object.keys(Object(texts)).find((name) => name.startsWith('longshore.'));
    if (own !== undefined) throw new Error(`metadata.${field}.${own} is set by the launcher`);
  }
  const fields = asFields(spec, 'spec', known.spec);
  for (const list of ['initContainers', 'containers']) {
    const containers = fields[list] ?? [];
    if (!Array.isArray(containers)) throw new Error(`spec.${list} must be a list`);
    for (const container of containers) asFields(container, `an entry of spec.${list}`, known.container);
  }
  const required: unknown = [
    'affinity',
    'nodeAffinity',
    'requiredDuringSchedulingIgnoredDuringExecution',
  ].reduce((value: unknown, name) => (isFields(value) ? value[name] : undefined), fields);
  if (required !== undefined)
    throw new Error('spec.affinity cannot require nodes, which runs with vram_mb do; use spec.nodeSelector');
}

/** A run's tags choose nodes by labels that the patch, which is merged last, would replace. */
function checkNodeSelector({ spec }: Fields, tags: JobContext['settings']['tags']): void {
  const chosen = isFields(spec) && isFields(spec['nodeSelector']) ? spec['nodeSelector'] : {};
  if (GPU_PRODUCT_LABEL in chosen)
    throw new Error(`spec.nodeSelector.${GPU_PRODUCT_LABEL} follows the gpu_selector of the run`);
  for (const [tag, { name, value }] of tags) {
    if (name in chosen && chosen[name] !== value)
      throw new Error(`spec.nodeSelector.${name} is the label of the tag '${tag}'`);
  }
}

function asFields(value: unknown, what: string, known: Iterable<string>): Fields {
  if (!isFields(value)) throw new Error(`${what} must hold fields`);
  const names = new Set(known);
  const unknown = Object.keys(value).find((name) => !names.has(name));
  if (unknown !== undefined) throw new Error(`${what} has the unknown field '${unknown}'`);
  return value;
}

function keyIn(entry: unknown, key: string): unknown {
  return isFields(entry) ? entry[key] : undefined;
}
