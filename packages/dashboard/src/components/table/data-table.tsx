import { defaultRangeExtractor, useWindowVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useRef, useState, type CSSProperties } from 'react';
import { classNames } from '../../lib/class-names.js';
import { DataTableHead } from './data-table-head.js';
import { DataTableRow } from './data-table-row.js';
import styles from './data-table.module.css';
import type { DataTableProps } from './data-table-types.js';
import { ErrorState } from '../feedback/error-state.js';
import { useRowKeys } from './use-row-keys.js';
import { useRowSelection } from './use-row-selection.js';
import { useTablePlace } from './use-table-place.js';

export type { Column, Selection } from './data-table-types.js';

const SKELETON_ROWS = 8;
const OVERSCAN = 12;

/**
 * A table of any length: only the rows in sight exist. Rows have one fixed height, so nothing moves when their content
 * changes, and become cards where there is no room for columns. Arrow keys, Home and End go from row to row, Enter opens
 * one, the space bar selects it; with Shift, a click or the space bar selects every row from the last one on.
 */
export function DataTable<T>(props: DataTableProps<T>) {
  const { label, columns, rows, rowKey, rowHeight, error, onRetry, empty, selection } = props;
  const body = useRef<HTMLDivElement>(null);
  const { isNarrow, top } = useTablePlace(body);
  const [active, setActive] = useState(-1);
  const height = isNarrow ? rowHeight.card : rowHeight.line;
  const count = rows?.length ?? 0;

  const virtualizer = useWindowVirtualizer({
    count,
    estimateSize: useCallback(() => height, [height]),
    getItemKey: useCallback(
      (index: number) => {
        const row = rows?.[index];
        return row === undefined ? index : rowKey(row);
      },
      [rows, rowKey],
    ),
    overscan: OVERSCAN,
    scrollMargin: top,
    useFlushSync: false,
    // The row that has the focus stays, or the focus would be lost with it.
    rangeExtractor: (range) => {
      const indexes = defaultRangeExtractor(range);
      if (active < 0 || active >= count || indexes.includes(active)) return indexes;
      return [...indexes, active].toSorted((left, right) => left - right);
    },
  });
  const measured = useRef(height);
  if (measured.current !== height) {
    measured.current = height;
    virtualizer.measure();
  }
  const onKeyDown = useRowKeys({ count, active, setActive, virtualizer, body });
  const onToggle = useRowSelection({ rows, rowKey, selection });

  if (rows === undefined && error !== undefined && error !== null) {
    return <ErrorState error={error} {...(onRetry === undefined ? {} : { onRetry })} />;
  }
  const grid = [...(selection === undefined ? [] : ['2.25rem']), ...columns.map(({ width }) => width)];
  const style: CSSProperties & Record<'--columns' | '--row', string> = {
    '--columns': grid.join(' '),
    '--row': `${height}px`,
  };
  return (
    <div
      role="table"
      aria-label={label}
      aria-rowcount={count + 1}
      aria-busy={rows === undefined}
      className={classNames(styles.table, isNarrow ? styles.cards : styles.lines)}
      style={style}
    >
      <DataTableHead columns={columns} rows={rows ?? []} rowKey={rowKey} selection={selection} />
      {/* oxlint-disable-next-line jsx-a11y/interactive-supports-focus, jsx-a11y/no-noninteractive-element-interactions -- the links and buttons inside have the focus */}
      <div
        ref={body}
        role="rowgroup"
        className={styles.body}
        style={{ height: (rows === undefined ? SKELETON_ROWS : count) * height }}
        onKeyDown={onKeyDown}
      >
        {rows === undefined
          ? Array.from({ length: SKELETON_ROWS }, (_, index) => (
              <div key={index} className={styles.skeleton} style={{ top: index * height }} />
            ))
          : virtualizer.getVirtualItems().map(({ index, key, start }) => {
              const row = rows[index];
              return row === undefined ? null : (
                <DataTableRow
                  key={key}
                  {...props}
                  row={row}
                  index={index}
                  top={start - virtualizer.options.scrollMargin}
                  onFocus={setActive}
                  onToggle={onToggle}
                />
              );
            })}
      </div>
      {rows !== undefined && count === 0 && <div className={styles.empty}>{empty}</div>}
    </div>
  );
}
