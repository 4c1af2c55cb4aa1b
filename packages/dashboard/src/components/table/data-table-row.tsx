import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { classNames } from '../../lib/class-names.js';
import styles from './data-table.module.css';
import type { DataTableProps } from './data-table-types.js';
import type { ToggleRow } from './use-row-selection.js';

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
      {columns.map(({ id, header, cell, align, card = 'half' }, column) => (
        <div key={id} role="cell" className={styles.cell} data-align={align} data-card={card}>
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
