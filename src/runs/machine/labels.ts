import type { Labels } from '../../database/entities/run.entity.js';

/** Labels that a run may have. */
export const MAX_LABELS = 32;

/** Labels to set, by key; null removes the one of this key. */
export type LabelChanges = Readonly<Record<string, string | null>>;

/** The labels after the changes, the last of a key counts; null: none are left. */
export function mergeLabels(...layers: readonly (LabelChanges | null | undefined)[]): Labels | null {
  const merged = new Map(layers.flatMap((layer) => Object.entries(layer ?? {})));
  const left = [...merged].filter((entry): entry is [string, string] => entry[1] !== null);
  return left.length === 0 ? null : Object.fromEntries(left);
}

/** Whether a run may have them. */
export function areTooMany(labels: Labels | null): boolean {
  return labels !== null && Object.keys(labels).length > MAX_LABELS;
}
