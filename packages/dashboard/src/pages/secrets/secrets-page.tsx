import { useState } from 'react';
import { ApiError } from '../../api/api-error.js';
import { unwrapPages } from '../../api/unwrap.js';
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
import { SECRET_COLUMNS } from './secret-columns.js';
import { SecretDialog } from './secret-dialog.js';
import type { Secret } from './secret-view.js';

const FILTERS = ['after'] as const;
const PAGE_SIZE = 50;
const ROW_HEIGHT = { line: 48, card: 190 };
const EVERY_MS = 5000;

/** The secrets of runs: names, kinds and times, never values. */
export default function SecretsPage() {
  const api = useApi();
  const [{ after }, setFilters] = useUrlFilters(FILTERS);
  const [isCreating, setCreating] = useState(false);
  const create = (): void => setCreating(true);
  useShortcut('n', 'New secret', create);
  const { data, error, isError, refetch } = useLive({
    queryKey: ['secrets', after],
    queryFn: ({ signal }) => {
      const query = { limit: PAGE_SIZE + 1, ...(after === '' ? {} : { after }) };
      return unwrapPages(
        (cursor) => api.GET('/secrets', { params: { query: { ...query, ...cursor } }, signal }),
        ({ name }) => name,
        PAGE_SIZE + 1,
      );
    },
    everyMs: EVERY_MS,
  });
  const { rows, last } = splitPage(data, PAGE_SIZE);
  const pages = useCursorPages(after, last?.name, (next) => setFilters({ after: next }, { isNewPage: true }));
  if (error instanceof ApiError && error.status === 503) return <NotConfigured />;
  return (
    <>
      <PageHeader
        title="Secrets"
        note={
          <>
            <LiveDot state={isError || data === undefined ? 'waiting' : 'live'} />
            <span>Values are never shown</span>
          </>
        }
        actions={
          <Button kind="primary" onClick={create}>
            New secret
          </Button>
        }
      />
      <DataTable
        label="Secrets"
        columns={SECRET_COLUMNS}
        rows={rows}
        rowKey={keyOf}
        rowHeight={ROW_HEIGHT}
        error={error}
        onRetry={() => void refetch()}
        empty={
          <EmptyState
            icon="secrets"
            title={after === '' ? 'There is no secret yet' : 'There are no more secrets'}
            action={<Button onClick={create}>New secret</Button>}
          >
            Runs get the values of secrets as environment variables, and logins for the pull of their images.
          </EmptyState>
        }
      />
      {(pages.onPrevious ?? pages.onNext) !== undefined && (
        <Pager
          label="secrets"
          {...pages}
          {...(rows === undefined ? {} : { note: `${formatCount(rows.length)} secrets, by name` })}
        />
      )}
      <SecretDialog isOpen={isCreating} onClose={() => setCreating(false)} />
    </>
  );
}

function NotConfigured() {
  return (
    <>
      <PageHeader title="Secrets" />
      <EmptyState icon="secrets" title="Secrets are not configured">
        The service encrypts secrets with the key in its setting <code>SERVICE_SECRETS_KEY</code>, which is
        not set: 32 random bytes in base64, such as <code>openssl rand -base64 32</code> prints. Set it on
        every host and restart the service.
      </EmptyState>
    </>
  );
}

function keyOf({ name }: Secret): string {
  return name;
}
