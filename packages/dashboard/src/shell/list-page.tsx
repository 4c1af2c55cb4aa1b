import type { ReactNode } from 'react';
import { ApiError } from '../api/api-error.js';
import { unwrapPages, type Answer } from '../api/unwrap.js';
import { useLive } from '../api/use-live.js';
import { DataTable } from '../components/table/data-table.js';
import type { DataTableProps } from '../components/table/data-table-types.js';
import { Pager } from '../components/table/pager.js';
import { LiveDot } from '../components/values/live-dot.js';
import { splitPage, useCursorPages } from '../hooks/use-cursor-pages.js';
import { useUrlFilters } from '../hooks/use-url-filters.js';
import { formatCount } from '../lib/format.js';
import { PageHeader } from './page-header.js';

const CURSOR = ['after'] as const;
const PAGE_SIZE = 50;

/** What a page of a list asks for. */
export interface ListQuery {
  readonly limit: number;
  /** The cursor of the row before; absent: from the beginning. */
  readonly after?: string;
}

interface Props<T> extends Pick<
  DataTableProps<T>,
  'label' | 'columns' | 'rowHref' | 'onOpen' | 'rowHeight' | 'empty'
> {
  readonly title: string;
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
      {filters}
      <DataTable {...table} rows={rows} rowKey={cursorOf} error={error} onRetry={() => void refetch()} />
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
