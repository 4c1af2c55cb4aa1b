import { defaultRangeExtractor, useWindowVirtualizer, type Virtualizer } from '@tanstack/react-virtual';
import {
  useCallback,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
  type CSSProperties,
  type KeyboardEvent,
  type RefObject,
} from 'react';
import { classNames } from '../../lib/class-names.js';
import { ErrorState } from '../feedback/empty-state.js';
import { DataTableHead, DataTableRow, useRowSelection, type DataTableProps } from './data-table-row.js';
import styles from './data-table.module.css';

export type { Column, Selection } from './data-table-row.js';

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

interface Setup {
  readonly count: number;
  /** Index of the row that has, or had, the focus; -1 for none. */
  readonly active: number;
  readonly setActive: (index: number) => void;
  readonly virtualizer: Virtualizer<Window, Element>;
  readonly body: RefObject<HTMLElement | null>;
}

/** Lets keys go from row to row of a table whose rows may not exist yet, and select them. */
function useRowKeys({ count, active, setActive, virtualizer, body }: Setup) {
  const wanted = useRef(-1);

  // A row that was far away exists only after the table has scrolled to it.
  useEffect(() => {
    if (wanted.current < 0) return;
    const row = body.current?.querySelector<HTMLElement>(`[data-index="${wanted.current}"]`);
    const target = row?.querySelector<HTMLElement>('[data-open], a, button, input');
    if (!target) return;
    wanted.current = -1;
    target.focus({ preventScroll: true });
  });

  return useCallback(
    (event: KeyboardEvent<HTMLElement>) => {
      const { target, key } = event;
      if (!(target instanceof HTMLElement) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (key === ' ' && target.matches('[data-open]')) {
        const box = target.closest('[data-index]')?.querySelector<HTMLInputElement>('input[type=checkbox]');
        if (!box) return;
        event.preventDefault();
        box.dispatchEvent(
          new MouseEvent('click', { bubbles: true, cancelable: true, shiftKey: event.shiftKey }),
        );
        return;
      }
      const next = { ArrowDown: active + 1, ArrowUp: active - 1, Home: 0, End: count - 1 }[key];
      if (next === undefined || next < 0 || next >= count) return;
      event.preventDefault();
      wanted.current = next;
      setActive(next);
      virtualizer.scrollToIndex(next, { align: 'auto' });
    },
    [active, count, setActive, virtualizer],
  );
}

/** Below this width, in pixels, rows are cards. */
const NARROW_PX = 740;

/** Where a part of the page is: whether it is too narrow for columns, and how far below the top of the page it begins. */
function useTablePlace(body: RefObject<HTMLElement | null>): {
  readonly isNarrow: boolean;
  readonly top: number;
} {
  const [place, setPlace] = useState(() => ({ isNarrow: window.innerWidth < NARROW_PX, top: 0 }));

  const measure = (): void => {
    const box = body.current?.getBoundingClientRect();
    if (box === undefined) return;
    const isNarrow = box.width < NARROW_PX;
    const top = Math.round(box.top + window.scrollY);
    // oxlint-disable-next-line react/set-state-in-effect -- the place is known only after the layout, before the paint
    setPlace((known) => (known.isNarrow === isNarrow && known.top === top ? known : { isNarrow, top }));
  };
  // What is above may have changed with any change of the page.
  useLayoutEffect(measure);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    observer.observe(document.body);
    return () => observer.disconnect();
  });
  return place;
}
