/** A line of a JSON tree. */
export interface JsonRow {
  /** Where it is: the keys from the root, joined so that no two places share one. */
  readonly path: string;
  readonly depth: number;
  /** The key or index under which it is; undefined at the root. */
  readonly name: string | undefined;
  readonly value: unknown;
  /** How many members it has; undefined for what has none by nature. */
  readonly size: number | undefined;
  readonly isOpen: boolean;
}

/**
 * The lines of a JSON value as far as it is unfolded.
 * @param isOpen whether what is at a place is unfolded
 */
export function toJsonRows(root: unknown, isOpen: (path: string, depth: number) => boolean): JsonRow[] {
  const rows: JsonRow[] = [];
  const visit = (value: unknown, name: string | undefined, path: string, depth: number): void => {
    const members = membersOf(value);
    const open = members !== undefined && members.length > 0 && isOpen(path, depth);
    rows.push({ path, depth, name, value, size: members?.length, isOpen: open });
    if (!open) return;
    for (const [key, member] of members) visit(member, key, `${path}/${escapeKey(key)}`, depth + 1);
  };
  visit(root, undefined, '', 0);
  return rows;
}

function membersOf(value: unknown): readonly (readonly [string, unknown])[] | undefined {
  if (Array.isArray(value)) return value.map((member, index) => [String(index), member] as const);
  return typeof value === 'object' && value !== null ? Object.entries(value) : undefined;
}

function escapeKey(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1');
}
