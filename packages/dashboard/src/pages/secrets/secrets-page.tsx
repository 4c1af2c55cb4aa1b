import { useState } from 'react';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { ListPage } from '../../shell/list-page.js';
import { PageHeader } from '../../shell/page-header.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { SECRET_COLUMNS } from './secret-columns.js';
import { SecretDialog } from './secret-dialog.js';

const FILTERS = ['after'] as const;
const ROW_HEIGHT = { line: 48, card: 190 };
const EVERY_MS = 5000;

/** The secrets of runs: names, kinds and times, never values. */
export default function SecretsPage() {
  const api = useApi();
  const [{ after }] = useUrlFilters(FILTERS);
  const [isCreating, setCreating] = useState(false);
  const create = (): void => setCreating(true);
  useShortcut('n', 'New secret', create);
  return (
    <>
      <ListPage
        title="Secrets"
        note="Values are never shown"
        actions={
          <Button kind="primary" onClick={create}>
            New secret
          </Button>
        }
        queryKey={['secrets']}
        read={(query, signal) => api.GET('/secrets', { params: { query }, signal })}
        cursorOf={({ name }) => name}
        everyMs={EVERY_MS}
        notConfigured={<NotConfigured />}
        label="Secrets"
        columns={SECRET_COLUMNS}
        rowHeight={ROW_HEIGHT}
        empty={
          <EmptyState
            icon="secrets"
            title={after === '' ? 'There is no secret yet' : 'There are no more secrets'}
            action={<Button onClick={create}>New secret</Button>}
          >
            Runs get the values of secrets as environment variables, and logins for the pull of their images.
          </EmptyState>
        }
        paged="secrets"
        counted="secrets, by name"
      />
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
