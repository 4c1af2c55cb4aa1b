import { isDeepStrictEqual } from 'node:util';
import type { Container, PodSpec, PodTemplate } from '../api/resources.js';
import { RUN_CONTAINER } from './names.js';

export type Fields = Readonly<Record<string, unknown>>;

/** Fields of a container that the launcher sets for its own use, or leaves out. */
const OWN_FIELDS = [
  'name',
  'image',
  'command',
  'args',
  'workingDir',
  'env',
  'volumeMounts',
  'restartPolicy',
] as const;

/** Fields of the pod that must be as the launcher sets them, or leaves them out. */
const POD_FIELDS = [
  'restartPolicy',
  'automountServiceAccountToken',
  'enableServiceLinks',
  'imagePullSecrets',
  'volumes',
] as const;

/** Fields of the pod that would let runs into the host or into each other. */
const SHARED = ['hostNetwork', 'hostPID', 'hostIPC', 'shareProcessNamespace'] as const;

/** Fields of the security context of a container that no template changes. */
const ISOLATION = ['privileged', 'allowPrivilegeEscalation', 'procMount'] as const;

/** @throws Error when a part that the launcher relies on, that a run asks for, or that isolates runs is not as the launcher made it */
export function checkMerged(sample: PodTemplate, merged: PodTemplate): void {
  const [spec, original] = [merged.spec, sample.spec];
  if (spec === undefined || original === undefined) throw new Error('spec must hold fields');
  checkPod(spec, original);
  checkContainers('spec.initContainers', spec.initContainers, original.initContainers);
  checkContainers('spec.containers', spec.containers, original.containers);
  for (const field of ['labels', 'annotations'] as const) {
    if (!includes(merged.metadata?.[field], sample.metadata?.[field]))
      throw new Error(`metadata.${field} must keep the ${field} of the launcher`);
  }
  const unconfined = Object.entries(merged.metadata?.annotations ?? {}).find(
    ([name, value]) => /(?:seccomp|apparmor)\.security\./.test(name) && value === 'unconfined',
  );
  if (unconfined !== undefined)
    throw new Error(`metadata.annotations.${unconfined[0]} must not be unconfined`);
}

function checkPod(spec: PodSpec, original: PodSpec): void {
  if (spec.terminationGracePeriodSeconds !== original.terminationGracePeriodSeconds)
    throw new Error('spec.terminationGracePeriodSeconds follows the stop_grace_s of the run');
  for (const field of POD_FIELDS) {
    if (!covers(spec[field], original[field]))
      throw new Error(`spec.${field} must keep what the launcher sets`);
  }
  const shared = SHARED.find((field) => spec[field] === true);
  if (shared !== undefined) throw new Error(`spec.${shared} must not be true: runs would not be isolated`);
  if (!includes(spec.affinity?.nodeAffinity, original.affinity?.nodeAffinity))
    throw new Error('spec.affinity must keep the nodes that the run requires');
  checkProfiles('spec', spec.securityContext, true);
}

function checkContainers(
  path: string,
  containers: readonly Container[] = [],
  originals: readonly Container[] = [],
): void {
  const names = originals.map(({ name }) => name);
  const found = containers.map(({ name }) => name);
  if (!isDeepStrictEqual(found, names))
    throw new Error(`${path} must be ${names.join(', ')} and no others, not ${found.join(', ') || 'empty'}`);
  for (const [index, container] of containers.entries()) {
    const original = originals[index];
    const at = `${path}.${container.name}`;
    for (const field of OWN_FIELDS) {
      if (!covers(container[field], original?.[field]))
        throw new Error(`${at}.${field} must keep what the launcher sets`);
    }
    checkSecurity(`${at}.securityContext`, container.securityContext, original?.securityContext);
    checkProfiles(at, container.securityContext, false);
    // What the run asks for; the containers of the launcher may need other amounts in a cluster with limits of its own.
    for (const kind of container.name === RUN_CONTAINER ? (['requests', 'limits'] as const) : []) {
      if (!includes(container.resources?.[kind], original?.resources?.[kind]))
        throw new Error(`${at}.resources.${kind} must keep what the run asks for`);
    }
  }
}

/** A template may take capabilities away and forbid more, and not choose another user than a run. */
function checkSecurity(
  at: string,
  value: Container['securityContext'],
  original: Container['securityContext'],
): void {
  const changed = ISOLATION.find((field) => value?.[field] !== original?.[field]);
  if (changed !== undefined) throw new Error(`${at}.${changed} must keep what the launcher sets`);
  const { drop, add = [] } = value?.capabilities ?? {};
  const allowed = original?.capabilities?.add ?? [];
  if (!isDeepStrictEqual(drop, original?.capabilities?.drop) || add.some((name) => !allowed.includes(name)))
    throw new Error(`${at}.capabilities must not give more than the launcher does`);
  for (const field of ['runAsUser', 'runAsGroup'] as const) {
    if (original?.[field] !== undefined && value?.[field] !== original[field])
      throw new Error(`${at}.${field} must keep the user of the run: use spec.securityContext for a default`);
  }
}

/** @param isNeeded whether there must be a profile of seccomp */
function checkProfiles(
  at: string,
  context: PodSpec['securityContext'] | Container['securityContext'],
  isNeeded: boolean,
): void {
  const { seccompProfile, appArmorProfile } = context ?? {};
  if ((isNeeded && seccompProfile === undefined) || seccompProfile?.type === 'Unconfined')
    throw new Error(`${at}.securityContext.seccompProfile must be RuntimeDefault or a Localhost profile`);
  if (appArmorProfile?.type === 'Unconfined')
    throw new Error(`${at}.securityContext.appArmorProfile must not be Unconfined`);
}

/** Whether lists contain all entries of the original, and other values are equal to it. */
function covers(value: unknown, original: unknown): boolean {
  const isNamed = Array.isArray(original) && original.every(isFields);
  if (!isNamed) return isDeepStrictEqual(value, original);
  return (
    Array.isArray(value) && original.every((entry) => value.some((other) => isDeepStrictEqual(other, entry)))
  );
}

/** Whether a value has all fields of the original with the same values. */
function includes(value: object | undefined, original: object | undefined): boolean {
  return Object.entries(original ?? {}).every(([name, field]) =>
    isDeepStrictEqual(Reflect.get(value ?? {}, name), field),
  );
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
