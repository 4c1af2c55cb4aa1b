import { useCallback, useRef } from 'react';
import type { DataTableProps, Selection } from './data-table-types.js';

/** Selects or deselects a row; with a range, every row between it and the last one that was (de)selected too. */
export type ToggleRow = (key: string, isRange: boolean) => void;

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
