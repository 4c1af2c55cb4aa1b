import styles from './data-table.module.css';
import type { DataTableProps } from './data-table-types.js';

type Props<T> = Pick<DataTableProps<T>, 'columns' | 'rowKey'> & {
  readonly rows: readonly T[];
  readonly selection: DataTableProps<T>['selection'];
};

/** The headings of a table; where rows are cards, only the box that selects all is seen. */
export function DataTableHead<T>({ columns, rows, rowKey, selection }: Props<T>) {
  return (
    <div role="rowgroup" className={styles.head}>
      <div role="row" aria-rowindex={1} className={styles.headings}>
        {selection !== undefined && (
          <div role="columnheader" className={styles.check}>
            <SelectAll keys={rows.map(rowKey)} selection={selection} />
          </div>
        )}
        {columns.map(({ id, header, align }) => (
          <div key={id} role="columnheader" className={styles.heading} data-align={align}>
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
