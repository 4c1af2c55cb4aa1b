import { isDeepStrictEqual } from 'node:util';
import type { PodTemplate } from '../api/resources.js';
import { INPUTS_CONTAINER, OUTPUTS_CONTAINER, RUN_CONTAINER } from './names.js';

export type Fields = Readonly<Record<string, unknown>>;

/** Fields of a container that the launcher sets for its own use. */
const OWN_FIELDS = ['name', 'image', 'command', 'args', 'env', 'volumeMounts'] as const;

/** @throws Error when a part that the launcher relies on is not as it made it */
export function checkMerged(sample: PodTemplate, merged: PodTemplate): void {
  const { spec } = merged;
  if (spec?.restartPolicy !== 'Never') throw new Error('spec.restartPolicy must stay Never');
  if (spec.terminationGracePeriodSeconds !== sample.spec?.terminationGracePeriodSeconds)
    throw new Error('spec.terminationGracePeriodSeconds follows the stop_grace_s of the run');
  const lists = [
    [
      'spec.initContainers',
      spec.initContainers,
      [INPUTS_CONTAINER, RUN_CONTAINER],
      sample.spec?.initContainers,
    ],
    ['spec.containers', spec.containers, [OUTPUTS_CONTAINER], sample.spec?.containers],
  ] as const;
  for (const [path, containers = [], names, originals = []] of lists) {
    const found = containers.map(({ name }) => name);
    if (!isDeepStrictEqual(found, names))
      throw new Error(
        `${path} must be ${names.join(', ')} and no others, not ${found.join(', ') || 'empty'}`,
      );
    for (const [index, container] of containers.entries()) {
      const original = originals[index];
      for (const field of OWN_FIELDS) {
        if (!covers(container[field], original?.[field]))
          throw new Error(`${path}.${container.name}.${field} must keep what the launcher sets`);
      }
    }
  }
  const labels = { ...merged.metadata?.labels, ...sample.metadata?.labels };
  if (!isDeepStrictEqual(merged.metadata?.labels, labels))
    throw new Error('metadata.labels must keep the labels of the launcher');
  if (!covers(spec.volumes, sample.spec?.volumes))
    throw new Error('spec.volumes must keep the volumes of the launcher');
}

/** Whether lists contain all entries of the original, and other values are equal to it. */
function covers(value: unknown, original: unknown): boolean {
  const isNamed = Array.isArray(original) && original.every(isFields);
  if (!isNamed) return isDeepStrictEqual(value, original);
  return (
    Array.isArray(value) && original.every((entry) => value.some((other) => isDeepStrictEqual(other, entry)))
  );
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
