import { useState } from 'react';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { useUrlFilters } from '../../hooks/use-url-filters.js';
import { ListPage } from '../../shell/list-page.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { CreateKeyDialog } from './create-key-dialog.js';
import { KEY_COLUMNS } from './key-columns.js';

const FILTERS = ['after'] as const;
const ROW_HEIGHT = { line: 52, card: 210 };
const EVERY_MS = 5000;

/** The API keys in the database: who may do what, until when. */
export default function KeysPage() {
  const api = useApi();
  const [{ after }] = useUrlFilters(FILTERS);
  const [isCreating, setCreating] = useState(false);
  useShortcut('n', 'New key', () => setCreating(true));
  const isFirstPage = after === '';
  return (
    <>
      <ListPage
        title="Keys"
        note="Keys from the configuration of the service are not listed"
        actions={
          <Button kind="primary" onClick={() => setCreating(true)}>
            New key
          </Button>
        }
        queryKey={['api-keys']}
        read={(query, signal) => api.GET('/api-keys', { params: { query }, signal })}
        cursorOf={({ id }) => id}
        everyMs={EVERY_MS}
        label="API keys"
        columns={KEY_COLUMNS}
        rowHeight={ROW_HEIGHT}
        empty={
          <EmptyState
            icon="keys"
            title={isFirstPage ? 'No key has been made yet' : 'There are no older keys'}
            action={<Button onClick={() => setCreating(true)}>New key</Button>}
          >
            Give every client and every worker a key of its own, with no more than it needs.
          </EmptyState>
        }
        paged="keys"
        counted="keys, newest first"
      />
      <CreateKeyDialog isOpen={isCreating} onClose={() => setCreating(false)} />
    </>
  );
}
