import { useState, type ReactNode } from 'react';
import { ApiError, unwrapPages, type Answer } from '../api/answers.js';
import { useLive } from '../api/use-api.js';
import type { DataTableProps } from '../components/table/data-table-row.js';
import { DataTable } from '../components/table/data-table.js';
import { Pager } from '../components/table/pager.js';
import { LiveDot } from '../components/values/live-dot.js';
import { useUrlFilters } from '../hooks/use-url-filters.js';
import { formatCount } from '../lib/format.js';
import { PageHeader } from './page-header.js';

const CURSOR = ['after'] as const;
const PAGE_SIZE = 50;

/** What a page of a list asks for. */
interface ListQuery {
  readonly limit: number;
  /** The cursor of the row before; absent: from the beginning. */
  readonly after?: string;
}

interface Props<T> extends Pick<DataTableProps<T>, 'label' | 'columns' | 'rowHref' | 'onOpen' | 'rowHeight'> {
  /** Absent: it is a list within a page. */
  readonly title?: string;
  /** Shown in place of no rows. @param isFirst whether it is the first page */
  readonly renderEmpty: (isFirst: boolean) => ReactNode;
  /** Beside the title. */
  readonly note?: string;
  /** Buttons at the end of the title. */
  readonly actions?: ReactNode;
  /** Between title and list. */
  readonly filters?: ReactNode;
  /** Names the list in the cache: all that its answer depends on beside the cursor. */
  readonly queryKey: readonly string[];
  readonly read: (query: ListQuery, signal: AbortSignal) => Promise<Answer<readonly T[]>>;
  /** Cursor and key of a row. */
  readonly cursorOf: (row: T) => string;
  /** Milliseconds between two answers. */
  readonly everyMs?: number;
  /** What the pager steps through, such as `keys`. */
  readonly paged: string;
  /** What the rows of a page are, behind their number. */
  readonly counted: string;
  /** Shown in place of the page when the service answers 503: what is listed needs a setting. */
  readonly notConfigured?: ReactNode;
}

/** A page with a list that goes on behind a cursor, which is in its address. */
export function ListPage<T>(props: Props<T>) {
  const {
    title,
    note,
    actions,
    filters,
    queryKey,
    read,
    cursorOf,
    everyMs,
    paged,
    counted,
    notConfigured,
    renderEmpty,
    ...table
  } = props;
  const [{ after }, setFilters] = useUrlFilters(CURSOR);
  const { data, error, isError, refetch } = useLive({
    queryKey: [...queryKey, after],
    queryFn: ({ signal }) => {
      const query = { limit: PAGE_SIZE + 1, ...(after === '' ? {} : { after }) };
      return unwrapPages((cursor) => read({ ...query, ...cursor }, signal), cursorOf, query.limit);
    },
    ...(everyMs === undefined ? {} : { everyMs }),
  });
  const { rows, last } = splitPage(data, PAGE_SIZE);
  const pages = useCursorPages(after, last && cursorOf(last), (next) =>
    setFilters({ after: next }, { isNewPage: true }),
  );
  if (notConfigured !== undefined && error instanceof ApiError && error.status === 503) return notConfigured;
  return (
    <>
      {title !== undefined && (
        <PageHeader
          title={title}
          note={
            <>
              <LiveDot state={isError || data === undefined ? 'waiting' : 'live'} />
              {note !== undefined && <span>{note}</span>}
            </>
          }
          actions={actions}
        />
      )}
      {filters}
      <DataTable
        {...table}
        rows={rows}
        rowKey={cursorOf}
        error={error}
        onRetry={() => void refetch()}
        empty={renderEmpty(after === '')}
      />
      {/* A list of one page needs none, and what is below a list moves while the list grows. */}
      {(pages.onPrevious ?? pages.onNext) !== undefined && (
        <Pager
          label={paged}
          {...pages}
          {...(rows === undefined ? {} : { note: `${formatCount(rows.length)} ${counted}` })}
        />
      )}
    </>
  );
}

/** The steps of a list that goes on behind a cursor. */
interface CursorPages {
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
function useCursorPages(after: string, next: string | undefined, goTo: (after: string) => void): CursorPages {
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
function splitPage<T>(
  rows: readonly T[] | undefined,
  size: number,
): { readonly rows: readonly T[] | undefined; readonly last: T | undefined } {
  if (rows === undefined || rows.length <= size) return { rows, last: undefined };
  return { rows: rows.slice(0, size), last: rows[size - 1] };
}
