import microdiff from 'microdiff';

/** A place in which two JSON values differ. */
export interface JsonChange {
  readonly kind: 'added' | 'removed' | 'changed';
  /** Keys and indexes from the root, joined by dots. */
  readonly path: string;
  /** Undefined for what was added. */
  readonly before: unknown;
  /** Undefined for what was removed. */
  readonly after: unknown;
}

/** What has to change in one JSON object to get the other, in the order in which the fields stand. */
export function jsonChanges(before: object, after: object): JsonChange[] {
  return microdiff(before, after, { cyclesFix: false }).map((difference): JsonChange => {
    const path = difference.path.join('.');
    switch (difference.type) {
      case 'CREATE':
        return { kind: 'added', path, before: undefined, after: difference.value };
      case 'REMOVE':
        return { kind: 'removed', path, before: difference.oldValue, after: undefined };
      case 'CHANGE':
        return { kind: 'changed', path, before: difference.oldValue, after: difference.value };
    }
  });
}
