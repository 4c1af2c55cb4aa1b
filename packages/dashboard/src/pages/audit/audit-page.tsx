import { useState } from 'react';
import { useApi } from '../../api/use-api.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { ListPage } from '../../shell/list-page.js';
import { AUDIT_COLUMNS } from './audit-columns.js';
import { AuditDialog } from './audit-dialog.js';
import type { AuditEntry } from './audit-view.js';

const FILTERS = ['after'] as const;
const ROW_HEIGHT = { line: 44, card: 150 };

/** Who changed what, and how. */
export default function AuditPage() {
  const api = useApi();
  const [{ after }] = useUrlFilters(FILTERS);
  const [opened, setOpened] = useState<AuditEntry>();
  return (
    <>
      <ListPage
        title="Audit"
        note="Direct changes of runs; API keys, drains and definitions; newest first"
        queryKey={['audit']}
        read={({ limit, after: behind = '' }, signal) => {
          const place = /^\d{1,15}$/.test(behind) ? { after: Number(behind) } : {};
          return api.GET('/audit', { params: { query: { limit, ...place } }, signal });
        }}
        cursorOf={({ id }) => String(id)}
        label="Audit"
        columns={AUDIT_COLUMNS}
        onOpen={setOpened}
        rowHeight={ROW_HEIGHT}
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
        paged="the audit log"
        counted="changes"
      />
      <AuditDialog entry={opened} onClose={() => setOpened(undefined)} />
    </>
  );
}
