import { jsonText } from '@longshore/common/json/json-text';
import type { JobKey, JobSpec } from '../../launcher/engine.js';
import { engineLogin } from '@longshore/worker/runtime/docker/images/registry-login';
import {
  DEFAULT_REGISTRY,
  parseImageReference,
} from '@longshore/worker/runtime/docker/images/image-reference';
import { templateText } from '@longshore/worker/runtime/outputs';
import { RunFault } from '@longshore/worker/runtime/runtime';
import type { KubernetesApi } from '../api/kubernetes-api.js';
import type { Job, Paths, Secret } from '../api/resources.js';
import { jobName, pullSecretName } from './names.js';

/** Keys of the Secret with the files of a run. */
export const INPUT_KEY = 'input.json';
export const OUTPUT_KEY = 'output.json';

const VALUE_PREFIX = 'env.';
const FILE_PREFIX = 'file.';

/** Annotation of the Secret with the paths of the files that have the value of a secret, by the key of their content. */
const PATHS_ANNOTATION = 'longshore.files';

/** Limit of the data of one Secret, in bytes, that every API server sets. */
const MAX_SECRET_BYTES = 2 ** 20;

/** Key of the Secret with the value of an environment variable. */
export function secretKeyOf(variable: string): string {
  return VALUE_PREFIX + variable;
}

/** Key of the Secret with the content of a file. A path can be too long for a key. @param index of the file in the spec */
export function fileKeyOf(index: number): string {
  return FILE_PREFIX + String(index);
}

/**
 * The Secrets of an attempt: its input, its template, the values of its secrets and its files; and the login at the registry if it has
 * one.
 * @throws RunFault when they are too large, or when the login is for another registry than the image's
 */
export function secretManifests(spec: JobSpec, labels: Readonly<Record<string, string>>): readonly Secret[] {
  const texts = {
    [INPUT_KEY]: jsonText(spec.inputs),
    [OUTPUT_KEY]: templateText(spec.outputTemplate),
    ...Object.fromEntries(Object.entries(spec.secrets).map(([name, text]) => [secretKeyOf(name), text])),
    ...Object.fromEntries(spec.files.map(({ content }, index) => [fileKeyOf(index), content])),
  };
  const bytes = Object.values(texts).reduce((sum, text) => sum + Buffer.byteLength(text), 0);
  if (bytes > MAX_SECRET_BYTES) {
    throw new RunFault(
      `Inputs, outputs template, secrets and files have ${bytes} bytes together; the limit on Kubernetes is ${MAX_SECRET_BYTES} bytes`,
    );
  }
  const paths = spec.files.flatMap(({ path, isSecret }, index) =>
    isSecret ? [[fileKeyOf(index), path]] : [],
  );
  const annotations = { [PATHS_ANNOTATION]: JSON.stringify(Object.fromEntries(paths)) };
  const metadata = { name: jobName(spec), labels, ...(paths.length > 0 && { annotations }) };
  const files = secretOf(metadata, 'Opaque', texts);
  const login = loginText(spec);
  if (login === null) return [files];
  const type = 'kubernetes.io/dockerconfigjson';
  return [files, secretOf({ name: pullSecretName(spec), labels }, type, { '.dockerconfigjson': login })];
}

/** The values of the run's secrets in the Secret of an attempt, by environment variable and by path; null when it is gone. */
export async function readSecretValues(
  api: KubernetesApi,
  paths: Paths,
  key: JobKey,
): Promise<Readonly<Record<string, string>> | null> {
  // A launcher may list Secrets, and not get them.
  const fieldSelector = `metadata.name=${jobName(key)}`;
  const { items } = await api.list<Secret>(paths.secrets(), { fieldSelector });
  const [secret] = items;
  if (secret === undefined) return null;
  const pathOf: Readonly<Record<string, string>> = JSON.parse(
    secret.metadata?.annotations?.[PATHS_ANNOTATION] ?? '{}',
  );
  const values = Object.entries(secret.data ?? {}).flatMap(([item, encoded]) => {
    const name = item.startsWith(VALUE_PREFIX) ? item.slice(VALUE_PREFIX.length) : pathOf[item];
    return name === undefined ? [] : [[name, Buffer.from(encoded, 'base64').toString()] as const];
  });
  return Object.fromEntries(values);
}

/** The patch that lets the cluster delete a Secret with its Job. */
export function ownedBy({ metadata: { name = '', uid = '' } = {} }: Job): Pick<Secret, 'metadata'> {
  return { metadata: { ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name, uid }] } };
}

function secretOf(
  metadata: Secret['metadata'],
  type: string,
  texts: Readonly<Record<string, string>>,
): Secret {
  const encoded = Object.entries(texts).map(([key, text]) => [key, Buffer.from(text).toString('base64')]);
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    type,
    data: Object.fromEntries(encoded),
  };
}

function loginText({ image, registry }: JobSpec): string | null {
  if (registry === null) return null;
  const reference = parseImageReference(image);
  // Refuses a login for another registry.
  engineLogin(reference, registry);
  const { username, password } = registry;
  const host = reference.registry ?? DEFAULT_REGISTRY;
  const server = host === DEFAULT_REGISTRY ? 'https://index.docker.io/v1/' : host;
  const auth = Buffer.from(`${username}:${password}`).toString('base64');
  return JSON.stringify({ auths: { [server]: { username, password, auth } } });
}
