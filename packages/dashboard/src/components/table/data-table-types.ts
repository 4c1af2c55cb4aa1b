import type { ReactNode } from 'react';

/** A column of a table. */
export interface Column<T> {
  readonly id: string;
  /** Its heading, and the label of its cells where rows are cards. */
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
