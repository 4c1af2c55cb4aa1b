import { useCallback, useRef, type ReactNode } from 'react';
import { Link } from 'wouter';
import { classNames } from '../../lib/class-names.js';
import styles from './data-table.module.css';

type Props<T> = Pick<DataTableProps<T>, 'columns' | 'rowKey' | 'rowHref' | 'onOpen' | 'selection'> & {
  readonly row: T;
  readonly index: number;
  /** Pixels below the head. */
  readonly top: number;
  readonly onFocus: (index: number) => void;
  readonly onToggle: ToggleRow;
};

/** A row of a table. A click anywhere on it opens it; links and buttons in it stay what they are. */
export function DataTableRow<T>(props: Props<T>) {
  const { row, index, top, columns, rowKey, rowHref, onOpen, selection, onFocus, onToggle } = props;
  const key = rowKey(row);
  const isSelected = selection?.selected.has(key) ?? false;
  return (
    // oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- it only notes where the focus is
    <div
      role="row"
      aria-rowindex={index + 2}
      aria-selected={selection === undefined ? undefined : isSelected}
      data-index={index}
      className={classNames(styles.row, isSelected && styles.selected)}
      style={{ transform: `translateY(${top}px)` }}
      onFocus={() => onFocus(index)}
    >
      {selection !== undefined && (
        <div role="cell" className={styles.check}>
          <label className={styles.checkLabel}>
            <input
              type="checkbox"
              aria-label={`Select ${key}`}
              checked={isSelected}
              onChange={({ nativeEvent }) =>
                onToggle(key, nativeEvent instanceof MouseEvent && nativeEvent.shiftKey)
              }
            />
          </label>
        </div>
      )}
      {columns.map(({ header, cell, align, card = 'half' }, column) => (
        <div key={header} role="cell" className={styles.cell} data-align={align} data-card={card}>
          <span className={styles.label} aria-hidden="true">
            {header}
          </span>
          {column === 0 ? (
            <Opener href={rowHref?.(row)} onOpen={onOpen && (() => onOpen(row))}>
              {cell(row)}
            </Opener>
          ) : (
            cell(row)
          )}
        </div>
      ))}
    </div>
  );
}

interface OpenerProps {
  readonly href: string | undefined;
  readonly onOpen: (() => void) | undefined;
  readonly children: ReactNode;
}

function Opener({ href, onOpen, children }: OpenerProps) {
  if (href !== undefined) {
    return (
      <Link href={href} className={styles.open} data-open>
        {children}
      </Link>
    );
  }
  if (onOpen === undefined) return children;
  return (
    <button type="button" className={styles.open} data-open onClick={onOpen}>
      {children}
    </button>
  );
}

/** A column of a table. */
export interface Column<T> {
  /** Its heading, by which it differs from the others, and the label of its cells where rows are cards. */
  readonly header: string;
  /** A track of CSS grid, such as `minmax(8rem, 2fr)` or `6rem`. */
  readonly width: string;
  readonly cell: (row: T) => ReactNode;
  readonly align?: 'end';
  /**
   * Its place in a card: the whole width or half of it, with its heading; `title` without the heading; or nowhere.
   * Default: half.
   */
  readonly card?: 'title' | 'half' | 'full' | 'hidden';
}

/** Rows that are chosen, by their keys. */
export interface Selection {
  readonly selected: ReadonlySet<string>;
  readonly onChange: (selected: ReadonlySet<string>) => void;
}

/** What a table shows and does. */
export interface DataTableProps<T> {
  /** What the rows are, such as `Workers`. */
  readonly label: string;
  /** The first column leads to the row's page or opens it. Keep the list outside the component, or memoize it. */
  readonly columns: readonly Column<T>[];
  /** Undefined while the first answer is on its way. */
  readonly rows: readonly T[] | undefined;
  readonly rowKey: (row: T) => string;
  /** The page of a row, below /ui. */
  readonly rowHref?: (row: T) => string;
  /** Opens a row that has no page of its own. */
  readonly onOpen?: (row: T) => void;
  /** Height of every row in pixels: as a line, and as a card on narrow screens. What is in it must fit. */
  readonly rowHeight: { readonly line: number; readonly card: number };
  /** Why there are no rows. */
  readonly error?: unknown;
  readonly onRetry?: () => void;
  /** Shown in place of no rows. */
  readonly empty: ReactNode;
  readonly selection?: Selection;
}

type DataTableHeadProps<T> = Pick<DataTableProps<T>, 'columns' | 'rowKey'> & {
  readonly rows: readonly T[];
  readonly selection: DataTableProps<T>['selection'];
};

/** The headings of a table; where rows are cards, only the box that selects all is seen. */
export function DataTableHead<T>({ columns, rows, rowKey, selection }: DataTableHeadProps<T>) {
  return (
    <div role="rowgroup" className={styles.head}>
      <div role="row" aria-rowindex={1} className={styles.headings}>
        {selection !== undefined && (
          <div role="columnheader" className={styles.check}>
            <SelectAll keys={rows.map(rowKey)} selection={selection} />
          </div>
        )}
        {columns.map(({ header, align }) => (
          <div key={header} role="columnheader" className={styles.heading} data-align={align}>
            {header}
          </div>
        ))}
      </div>
    </div>
  );
}

interface SelectAllProps {
  readonly keys: readonly string[];
  readonly selection: NonNullable<DataTableProps<unknown>['selection']>;
}

function SelectAll({ keys, selection: { selected, onChange } }: SelectAllProps) {
  const chosen = keys.filter((key) => selected.has(key)).length;
  const isAll = keys.length > 0 && chosen === keys.length;
  return (
    <label className={styles.checkLabel}>
      <input
        type="checkbox"
        aria-label="Select all rows"
        checked={isAll}
        ref={(box) => {
          if (box !== null) box.indeterminate = chosen > 0 && !isAll;
        }}
        onChange={() => {
          const next = new Set(selected);
          for (const key of keys) {
            if (isAll) next.delete(key);
            else next.add(key);
          }
          onChange(next);
        }}
      />
    </label>
  );
}

/** Selects or deselects a row; with a range, every row between it and the last one that was (de)selected too. */
type ToggleRow = (key: string, isRange: boolean) => void;

interface Setup<T> extends Pick<DataTableProps<T>, 'rowKey' | 'rows'> {
  readonly selection: Selection | undefined;
}

/** The selection of a table by single rows and by ranges. */
export function useRowSelection<T>({ rows, rowKey, selection }: Setup<T>): ToggleRow {
  // A key, because rows may have moved since.
  const last = useRef<string>(undefined);
  return useCallback(
    (key, isRange) => {
      if (selection === undefined) return;
      const keys = (rows ?? []).map(rowKey);
      const from = isRange && last.current !== undefined ? keys.indexOf(last.current) : -1;
      const to = keys.indexOf(key);
      last.current = key;
      const isSelecting = !selection.selected.has(key);
      const changed = from < 0 || to < 0 ? [key] : keys.slice(Math.min(from, to), Math.max(from, to) + 1);
      const next = new Set(selection.selected);
      for (const one of changed) {
        if (isSelecting) next.add(one);
        else next.delete(one);
      }
      selection.onChange(next);
    },
    [rows, rowKey, selection],
  );
}
