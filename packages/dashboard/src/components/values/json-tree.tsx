import { escapeUnsafe } from '@longshore/common/json/text';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from 'react';
import { classNames } from '../../lib/class-names.js';
import { CopyButton } from '../controls/copy-button.js';
import styles from './json-tree.module.css';

const ROW_PX = 22;
/** Levels that are unfolded at first. */
const OPEN_DEPTH = 2;
/** Longer texts are cut in the tree; copying gives the whole. */
const LONGEST_TEXT = 300;

interface Props {
  /** What the value is, such as `inputs`. */
  readonly label: string;
  readonly value: unknown;
  /** Highest it gets, in pixels; longer values scroll. */
  readonly maxHeight?: number;
  /** What is shown beside a value, such as a link to what it names. */
  readonly linkOf?: (value: unknown) => ReactNode;
}

/**
 * A JSON value that folds. Only the lines in sight exist, so its size does not matter. Arrow keys go up and down, fold
 * and unfold.
 */
export function JsonTree({ label, value, maxHeight = 360, linkOf }: Props) {
  const [turned, setTurned] = useState<ReadonlySet<string>>(new Set());
  const [active, setActive] = useState(0);
  const box = useRef<HTMLDivElement>(null);
  const rows = useMemo(
    () => toJsonRows(value, (path, depth) => depth < OPEN_DEPTH !== turned.has(path)),
    [value, turned],
  );
  const virtualizer = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    overscan: 10,
    useFlushSync: false,
  });
  const current = Math.min(active, rows.length - 1);
  const turn = (path: string): void => {
    const next = new Set(turned);
    if (!next.delete(path)) next.add(path);
    setTurned(next);
  };
  const press = (event: KeyboardEvent): void => {
    const row = rows[current];
    if (row === undefined) return;
    const parent = row.path.slice(0, row.path.lastIndexOf('/'));
    const goTo: Readonly<Record<string, () => number>> = {
      ArrowDown: () => current + 1,
      ArrowUp: () => current - 1,
      Home: () => 0,
      End: () => rows.length - 1,
      ArrowLeft: () => (row.isOpen ? current : rows.findIndex(({ path }) => path === parent)),
      ArrowRight: () => (row.isOpen ? current + 1 : current),
      Enter: () => current,
    };
    const next = goTo[event.key]?.();
    if (next === undefined) return;
    event.preventDefault();
    const isFoldable = (row.size ?? 0) > 0;
    if (
      isFoldable &&
      (event.key === 'Enter' ||
        (event.key === 'ArrowLeft' && row.isOpen) ||
        (event.key === 'ArrowRight' && !row.isOpen))
    ) {
      turn(row.path);
    }
    const index = Math.max(0, Math.min(next, rows.length - 1));
    setActive(index);
    virtualizer.scrollToIndex(index, { align: 'auto' });
  };
  return (
    <div className={styles.frame}>
      <div
        ref={box}
        role="tree"
        tabIndex={0}
        aria-label={label}
        aria-activedescendant={`json-${label}-${current}`}
        className={styles.tree}
        style={{ maxHeight }}
        onKeyDown={press}
      >
        <div role="presentation" style={{ height: rows.length * ROW_PX, position: 'relative' }}>
          {virtualizer.getVirtualItems().map(({ index, start }) => {
            const row = rows[index];
            if (row === undefined) return null;
            return (
              // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/interactive-supports-focus -- the tree has the focus and takes the keys
              <div
                key={row.path}
                id={`json-${label}-${index}`}
                role="treeitem"
                aria-level={row.depth + 1}
                aria-selected={index === current}
                aria-expanded={(row.size ?? 0) > 0 ? row.isOpen : undefined}
                className={classNames(styles.row, index === current && styles.active)}
                style={{
                  transform: `translateY(${start}px)`,
                  paddingInlineStart: `${row.depth * 1.1 + 1.2}em`,
                }}
                onClick={() => {
                  setActive(index);
                  if ((row.size ?? 0) > 0) turn(row.path);
                }}
              >
                <JsonLine row={row} />
                {row.size !== undefined && linkOf !== undefined && <> {linkOf(row.value)}</>}
              </div>
            );
          })}
        </div>
      </div>
      <div className={styles.copy}>
        <CopyButton what={label} text={JSON.stringify(value, null, 2) ?? ''} />
      </div>
    </div>
  );
}

function JsonLine({ row: { name, value, size, isOpen } }: { readonly row: JsonRow }) {
  return (
    <>
      {(size ?? 0) > 0 && (
        <span className={classNames(styles.mark, isOpen && styles.open)} aria-hidden="true" />
      )}
      {name !== undefined && <span className={styles.name}>{escapeUnsafe(name)}: </span>}
      {size === undefined ? <Plain value={value} /> : <span className="muted">{summary(value, size)}</span>}
    </>
  );
}

function Plain({ value }: { readonly value: unknown }) {
  if (typeof value !== 'string') return <span className={styles.literal}>{String(value)}</span>;
  const isCut = value.length > LONGEST_TEXT;
  const text = escapeUnsafe(JSON.stringify(isCut ? value.slice(0, LONGEST_TEXT) : value));
  return (
    <>
      <span className={styles.text}>{text}</span>
      {isCut && <span className="muted"> … {value.length - LONGEST_TEXT} characters more</span>}
    </>
  );
}

function summary(value: unknown, size: number): string {
  const [open, close] = Array.isArray(value) ? ['[', ']'] : ['{', '}'];
  return size === 0 ? `${open}${close}` : `${open} ${size} ${close}`;
}

/** A line of a JSON tree. */
interface JsonRow {
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
function toJsonRows(root: unknown, isOpen: (path: string, depth: number) => boolean): JsonRow[] {
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
