import { useState } from 'react';

/** The steps of a list that goes on behind a cursor. */
export interface CursorPages {
  /** Undefined on the first page. */
  readonly onPrevious: (() => void) | undefined;
  /** Undefined on the last page. */
  readonly onNext: (() => void) | undefined;
}

/**
 * Steps both ways through a list whose API only goes forward. It remembers the cursors that were passed; from a page that
 * was reached by a link the way back leads to the first page.
 * @param after cursor of the page that is shown; empty for the first
 * @param next cursor of the page behind; undefined when there is none
 */
export function useCursorPages(
  after: string,
  next: string | undefined,
  goTo: (after: string) => void,
): CursorPages {
  const [passed, setPassed] = useState<readonly string[]>(['']);
  const at = passed.indexOf(after);
  const turnTo = (cursor: string): void => {
    goTo(cursor);
    // The pager is at the foot of a page, which is read from its head.
    window.scrollTo({ top: 0 });
  };
  return {
    onPrevious: after === '' ? undefined : () => turnTo(at > 0 ? (passed[at - 1] ?? '') : ''),
    onNext:
      next === undefined
        ? undefined
        : () => {
            setPassed([...(at < 0 ? ['', after] : passed.slice(0, at + 1)), next]);
            turnTo(next);
          },
  };
}

/**
 * Splits what a list answered into a page and what tells whether more follows: ask for one row more than is shown.
 * @param size rows of a page
 */
export function splitPage<T>(
  rows: readonly T[] | undefined,
  size: number,
): { readonly rows: readonly T[] | undefined; readonly last: T | undefined } {
  if (rows === undefined || rows.length <= size) return { rows, last: undefined };
  return { rows: rows.slice(0, size), last: rows[size - 1] };
}
