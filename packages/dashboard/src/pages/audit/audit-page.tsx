import { useState } from 'react';
import { unwrapPages } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { useLive } from '../../api/use-live.js';
import { DataTable } from '../../components/table/data-table.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { LiveDot } from '../../components/values/live-dot.js';
import { Pager } from '../../components/table/pager.js';
import { splitPage, useCursorPages } from '../../hooks/use-cursor-pages.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount } from '../../lib/format.js';
import { PageHeader } from '../../shell/page-header.js';
import { AUDIT_COLUMNS } from './audit-columns.js';
import { AuditDialog } from './audit-dialog.js';
import type { AuditEntry } from './audit-view.js';

const FILTERS = ['after'] as const;
const PAGE_SIZE = 50;
const ROW_HEIGHT = { line: 44, card: 150 };

/** Who changed what, and how. */
export default function AuditPage() {
  const api = useApi();
  const [{ after }, setFilters] = useUrlFilters(FILTERS);
  const [opened, setOpened] = useState<AuditEntry>();
  const { data, error, isError, refetch } = useLive({
    queryKey: ['audit', after],
    queryFn: ({ signal }) => {
      return unwrapPages(
        (cursor) => {
          const behind = cursor.after ?? after;
          const place = /^\d{1,15}$/.test(behind) ? { after: Number(behind) } : {};
          return api.GET('/audit', { params: { query: { limit: PAGE_SIZE + 1, ...place } }, signal });
        },
        ({ id }) => String(id),
        PAGE_SIZE + 1,
      );
    },
  });
  const { rows, last } = splitPage(data, PAGE_SIZE);
  const pages = useCursorPages(after, last && String(last.id), (next) =>
    setFilters({ after: next }, { isNewPage: true }),
  );
  return (
    <>
      <PageHeader
        title="Audit"
        note={
          <>
            <LiveDot state={isError || data === undefined ? 'waiting' : 'live'} />
            <span>Direct changes of runs; API keys, drains and definitions; newest first</span>
          </>
        }
      />
      <DataTable
        label="Audit"
        columns={AUDIT_COLUMNS}
        rows={rows}
        rowKey={keyOf}
        onOpen={setOpened}
        rowHeight={ROW_HEIGHT}
        error={error}
        onRetry={() => void refetch()}
        empty={
          after === '' ? (
            <EmptyState icon="audit" title="No recorded changes">
              Kept here are changes of state, priority or outputs past the rules of a run (PATCH), and changes
              of API keys, drains and definitions: who did it, what it was and what it became.
            </EmptyState>
          ) : (
            <EmptyState icon="audit" title="There is nothing older" />
          )
        }
      />
      {/* A list of one page needs none, and what is below a list moves while the list grows. */}
      {(pages.onPrevious ?? pages.onNext) !== undefined && (
        <Pager
          label="the audit log"
          {...pages}
          {...(rows === undefined ? {} : { note: `${formatCount(rows.length)} changes` })}
        />
      )}
      <AuditDialog entry={opened} onClose={() => setOpened(undefined)} />
    </>
  );
}

function keyOf({ id }: AuditEntry): string {
  return String(id);
}
