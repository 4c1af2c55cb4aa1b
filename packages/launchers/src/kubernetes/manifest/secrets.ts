import { textOrBytes } from '@longshore/common/binary';
import { jsonText } from '@longshore/common/json/json-text';
import type { JobKey, JobMemo, JobSpec } from '../../launcher/engine.js';
import { engineLogin } from '@longshore/worker/runtime/docker/images/registry-login';
import {
  DEFAULT_REGISTRY,
  parseImageReference,
} from '@longshore/worker/runtime/docker/images/image-reference';
import { templateText } from '@longshore/worker/runtime/outputs';
import { RunFault } from '@longshore/worker/runtime/runtime';
import { signedQueries } from '@longshore/worker/secrets/signed-urls';
import type { KubernetesApi } from '../api/kubernetes-api.js';
import type { Job, Paths, Secret } from '../api/resources.js';
import { filesSecretName, INPUT_KEY, jobName, OUTPUT_KEY, pullSecretName } from './names.js';
import { filesContent } from './run-files.js';

const VALUE_PREFIX = 'env.';
const FILE_PREFIX = 'file.';

/** Key of the Secret with the names of what has the value of a secret, variables and paths of files, by the key of the value. */
const NAMES_KEY = 'names.json';

/** What a Secret holds, in base64. */
export type SecretData = NonNullable<Secret['data']>;

/** Limit of the data of one Secret, in bytes, that every API server sets. */
const MAX_SECRET_BYTES = 2 ** 20;

/** Key of the Secret with the value of an environment variable. A name can be too long for a key. @param index of the secret in the spec */
export function secretKeyOf(index: number): string {
  return VALUE_PREFIX + String(index);
}

/** Key of the Secret with the content of a file. @param index of the file in the spec */
export function fileKeyOf(index: number): string {
  return FILE_PREFIX + String(index);
}

/**
 * The Secrets of an attempt: its input, its template, the values of its secrets and its files; the login at the registry, and what its
 * files come from and go to, if it has them.
 * @param networks SERVICE_WORKER_FETCH_NETWORKS; null: none
 * @throws RunFault when they are too large, or when the login is for another registry than the image's
 */
export function secretManifests(
  spec: JobSpec,
  labels: Readonly<Record<string, string>>,
  networks: string | null = null,
): readonly Secret[] {
  const values = Object.entries(spec.secrets);
  const names = {
    ...Object.fromEntries(values.map(([name], index) => [secretKeyOf(index), name])),
    ...Object.fromEntries(
      spec.files.flatMap(({ path, isSecret }, index) => (isSecret ? [[fileKeyOf(index), path]] : [])),
    ),
  };
  const contents = {
    [INPUT_KEY]: jsonText(spec.inputs),
    [OUTPUT_KEY]: templateText(spec.outputTemplate),
    ...Object.fromEntries(values.map(([, text], index) => [secretKeyOf(index), text])),
    ...Object.fromEntries(spec.files.map(({ content }, index) => [fileKeyOf(index), content])),
    ...(Object.keys(names).length > 0 && { [NAMES_KEY]: JSON.stringify(names) }),
  };
  checkBytes('Inputs, outputs template, secrets and files', contents);
  const secrets = [secretOf({ name: jobName(spec), labels }, 'Opaque', contents)];
  const login = loginText(spec);
  if (login !== null) {
    const type = 'kubernetes.io/dockerconfigjson';
    secrets.push(secretOf({ name: pullSecretName(spec), labels }, type, { '.dockerconfigjson': login }));
  }
  if (spec.signedFiles !== null) {
    const content = filesContent(spec.signedFiles, networks);
    checkBytes('The URLs of the files of the run', content);
    secrets.push(secretOf({ name: filesSecretName(spec), labels }, 'Opaque', content));
  }
  return secrets;
}

function checkBytes(what: string, contents: Readonly<Record<string, string | Buffer>>): void {
  const bytes = Object.values(contents).reduce((sum, content) => sum + Buffer.byteLength(content), 0);
  if (bytes <= MAX_SECRET_BYTES) return;
  throw new RunFault(
    `${what} have ${bytes} bytes together; the limit on Kubernetes is ${MAX_SECRET_BYTES} bytes`,
  );
}

/** The data of the Secret of an attempt; null when it is gone. */
export async function readSecretData(
  api: KubernetesApi,
  paths: Paths,
  key: JobKey,
): Promise<SecretData | null> {
  // A launcher may list Secrets, and not get them.
  const fieldSelector = `metadata.name=${jobName(key)}`;
  const { items } = await api.list<Secret>(paths.secrets(), { fieldSelector });
  const [secret] = items;
  return secret === undefined ? null : (secret.data ?? {});
}

/** The values of the run's secrets, by environment variable and by path. */
export function secretValues(data: SecretData): Readonly<Record<string, string | Buffer>> {
  const names: Readonly<Record<string, string>> = JSON.parse(decoded(data[NAMES_KEY]).toString() || '{}');
  const values = Object.entries(names).flatMap(([item, name]) => {
    const encoded = data[item];
    return encoded === undefined ? [] : [[name, textOrBytes(decoded(encoded))] as const];
  });
  return Object.fromEntries(values);
}

/** The signed URLs are those of the input and the template. A launcher whose pods fetch files adds no lines before theirs. */
export function memoIn(data: SecretData): JobMemo {
  const texts = [INPUT_KEY, OUTPUT_KEY].map((key) => decoded(data[key]).toString());
  return { signedQueries: signedQueries(...texts), notes: [] };
}

function decoded(encoded = ''): Buffer {
  return Buffer.from(encoded, 'base64');
}

/** The patch that lets the cluster delete a Secret with its Job. */
export function ownedBy({ metadata: { name = '', uid = '' } = {} }: Job): Pick<Secret, 'metadata'> {
  return { metadata: { ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name, uid }] } };
}

function secretOf(
  metadata: Secret['metadata'],
  type: string,
  contents: Readonly<Record<string, string | Buffer>>,
): Secret {
  return { apiVersion: 'v1', kind: 'Secret', metadata, type, data: encodedData(contents) };
}

/** The contents as a Secret has them. */
export function encodedData(
  contents: Readonly<Record<string, string | Buffer>>,
): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(contents).map(([key, content]) => [key, Buffer.from(content).toString('base64')]),
  );
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
