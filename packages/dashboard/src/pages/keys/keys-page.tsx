import { useState } from 'react';
import { unwrap } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { useLive } from '../../api/use-live.js';
import { Button } from '../../components/controls/button.js';
import { DataTable } from '../../components/table/data-table.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { LiveDot } from '../../components/values/live-dot.js';
import { Pager } from '../../components/table/pager.js';
import { splitPage, useCursorPages } from '../../hooks/use-cursor-pages.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { formatCount } from '../../lib/format.js';
import { PageHeader } from '../../shell/page-header.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { CreateKeyDialog } from './create-key-dialog.js';
import { KEY_COLUMNS } from './key-columns.js';
import type { ApiKey } from './key-view.js';

const FILTERS = ['after'] as const;
const PAGE_SIZE = 50;
const ROW_HEIGHT = { line: 52, card: 210 };
const EVERY_MS = 5000;

/** The API keys in the database: who may do what, until when. */
export default function KeysPage() {
  const api = useApi();
  const [{ after }, setFilters] = useUrlFilters(FILTERS);
  const [isCreating, setCreating] = useState(false);
  useShortcut('n', 'New key', () => setCreating(true));
  const { data, error, isError, refetch } = useLive({
    queryKey: ['api-keys', after],
    queryFn: ({ signal }) => {
      const query = { limit: PAGE_SIZE + 1, ...(after === '' ? {} : { after }) };
      return unwrap(api.GET('/api-keys', { params: { query }, signal }));
    },
    everyMs: EVERY_MS,
  });
  const { rows, last } = splitPage(data, PAGE_SIZE);
  const pages = useCursorPages(after, last?.id, (next) => setFilters({ after: next }, { isNewPage: true }));
  return (
    <>
      <PageHeader
        title="Keys"
        note={
          <>
            <LiveDot state={isError || data === undefined ? 'waiting' : 'live'} />
            <span>Keys from the configuration of the service are not listed</span>
          </>
        }
        actions={
          <Button kind="primary" onClick={() => setCreating(true)}>
            New key
          </Button>
        }
      />
      <DataTable
        label="API keys"
        columns={KEY_COLUMNS}
        rows={rows}
        rowKey={keyOf}
        rowHeight={ROW_HEIGHT}
        error={error}
        onRetry={() => void refetch()}
        empty={
          <EmptyState
            icon="keys"
            title={after === '' ? 'No key has been made yet' : 'There are no older keys'}
            action={<Button onClick={() => setCreating(true)}>New key</Button>}
          >
            Give every client and every worker a key of its own, with no more than it needs.
          </EmptyState>
        }
      />
      {/* A list of one page needs none, and what is below a list moves while the list grows. */}
      {(pages.onPrevious ?? pages.onNext) !== undefined && (
        <Pager
          label="keys"
          {...pages}
          {...(rows === undefined ? {} : { note: `${formatCount(rows.length)} keys, newest first` })}
        />
      )}
      <CreateKeyDialog isOpen={isCreating} onClose={() => setCreating(false)} />
    </>
  );
}

function keyOf({ id }: ApiKey): string {
  return id;
}
