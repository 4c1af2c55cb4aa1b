import { createHash } from 'node:crypto';
import type { EngineJob, JobKey, JobSpec } from '../../launcher/engine.js';
import type { Job } from '../api/resources.js';

/** Labels of everything that a launcher creates. */
export const DEPLOYMENT_LABEL = 'longshore.deployment';
export const WORKER_LABEL = 'longshore.worker';
export const RUN_LABEL = 'longshore.run';
export const ATTEMPT_LABEL = 'longshore.attempt';

/** Annotation of a Job with the exact id of the worker: a label cannot hold all of its characters. */
export const WORKER_ANNOTATION = 'longshore.worker';

/** Annotation of a Job with the UID of its pod. Another pod of the Job is a replacement, whose results do not count. */
export const POD_ANNOTATION = 'longshore.pod';

/** Annotations of a Job and its pod with the run's name, and with its labels as a JSON object. */
const NAME_ANNOTATION = 'longshore.name';
const LABELS_ANNOTATION = 'longshore.labels';

/** Of a pod: the key of a run's label follows. */
const LABEL_PREFIX = 'longshore.label/';

/** Annotation of a pod: a change of it makes the node look for changes of its Secrets at once. */
export const ANSWER_ANNOTATION = 'longshore.answer';

/** Containers of a pod, in the order in which they run. `run` is the user's; `files` is there for runs that get or leave files. */
export const INPUTS_CONTAINER = 'inputs';
export const FILES_CONTAINER = 'files';
export const RUN_CONTAINER = 'run';
export const OUTPUTS_CONTAINER = 'outputs';

/** GPUs, as pods request them. */
export const GPU_RESOURCE = 'nvidia.com/gpu';

/** Label of nodes with the product name of their GPUs. */
export const GPU_PRODUCT_LABEL = 'nvidia.com/gpu.product';

/** The tag of a product of GPUs. */
export function gpuTag(product: string): string {
  return product.toLowerCase();
}

/** Keys of the Secret with the files of a run. */
export const INPUT_KEY = 'input.json';
export const OUTPUT_KEY = 'output.json';

/** Volume of a pod with its input and output files. */
export const FILES_VOLUME = 'longshore-files';

/** Volume of a pod with its /dev/shm. */
export const SHM_VOLUME = 'longshore-shm';

/** Name of the Job of an attempt, and of its Secret. The API server refuses a second one. */
export function jobName({ runId, attempt }: JobKey): string {
  return `run-${runId}-${attempt}`;
}

/** Name of the Secret with the login at the registry. */
export function pullSecretName(key: JobKey): string {
  return `${jobName(key)}-pull`;
}

/** Name of the Secret that tells the containers of an attempt where its files come from and go. */
export function filesSecretName(key: JobKey): string {
  return `${jobName(key)}-files`;
}

const LABEL_VALUE = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

type RunNames = Pick<JobSpec, 'name' | 'labels'>;

/** A text as the value of a label: itself where it is one, else a hash. */
export function labelValue(text: string): string {
  if (LABEL_VALUE.test(text)) return text;
  return `sha-${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;
}

/** What a Job and its pod say of the run's name and labels; nothing without any. */
export function runAnnotations({ name, labels }: RunNames): Readonly<Record<string, string>> {
  return {
    ...(name !== null && { [NAME_ANNOTATION]: name }),
    ...(Object.keys(labels).length > 0 && { [LABELS_ANNOTATION]: JSON.stringify(labels) }),
  };
}

/** The run's labels as labels of its pod: those whose key and value Kubernetes takes. */
export function podLabels({ labels }: RunNames): Readonly<Record<string, string>> {
  const valid = Object.entries(labels).filter(
    ([key, value]) => !key.includes('/') && (value === '' || LABEL_VALUE.test(value)),
  );
  return Object.fromEntries(valid.map(([key, value]) => [`${LABEL_PREFIX}${key}`, value]));
}

/** Selects what launchers of the deployment created. */
export function deploymentSelector(deployment: string): string {
  return `${DEPLOYMENT_LABEL}=${labelValue(deployment)}`;
}

/** Selects what belongs to the attempt. */
export function attemptSelector(deployment: string, { runId, attempt }: JobKey): string {
  return `${deploymentSelector(deployment)},${RUN_LABEL}=${runId},${ATTEMPT_LABEL}=${attempt}`;
}

/** The attempt that labels name; null: not an object of a launcher. */
export function keyOf(labels: Readonly<Record<string, string>> | undefined): JobKey | null {
  const runId = labels?.[RUN_LABEL];
  const attempt = Number(labels?.[ATTEMPT_LABEL]);
  return runId === undefined || !Number.isSafeInteger(attempt) || attempt < 1 ? null : { runId, attempt };
}

/** Who submitted which attempt as which Job; null: not a Job of a launcher. */
export function identityOf(job: Job): Omit<EngineJob, 'status'> | null {
  const { labels, annotations, uid } = job.metadata ?? {};
  const key = keyOf(labels);
  if (key === null || uid === undefined) return null;
  return { ...key, workerId: annotations?.[WORKER_ANNOTATION] ?? '', engineId: uid };
}
