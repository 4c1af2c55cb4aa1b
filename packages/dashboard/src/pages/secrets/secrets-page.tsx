import { useState } from 'react';
import { unwrapEmpty } from '../../api/answers.js';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { showToast } from '../../components/feedback/toasts.js';
import type { Column } from '../../components/table/data-table.js';
import { Time } from '../../components/values/time.js';
import { ListPage } from '../../shell/list-page.js';
import { PageHeader } from '../../shell/page-header.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { SecretDialog, type Secret } from './secret-dialog.js';
import styles from './secrets-page.module.css';

const ROW_HEIGHT = { line: 48, card: 190 };
const EVERY_MS = 5000;

/** The secrets of runs: names, kinds and times, never values. */
export default function SecretsPage() {
  const api = useApi();
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
        renderEmpty={(isFirst) => (
          <EmptyState
            icon="secrets"
            title={isFirst ? 'There is no secret yet' : 'There are no more secrets'}
            action={<Button onClick={create}>New secret</Button>}
          >
            Runs get the values of secrets as environment variables, and logins for the pull of their images.
          </EmptyState>
        )}
        paged="secrets"
        counted="secrets, by name"
      />
      {isCreating && <SecretDialog onClose={() => setCreating(false)} />}
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

const SECRET_COLUMNS: readonly Column<Secret>[] = [
  {
    header: 'Name',
    width: 'minmax(9rem, 2fr)',
    card: 'title',
    cell: ({ name }) => (
      <code className={styles.name} title={name}>
        {name}
      </code>
    ),
  },
  { header: 'Kind', width: 'minmax(5rem, 1fr)', cell: ({ kind }) => <span>{kind}</span> },
  { header: 'Created', width: '6rem', cell: (secret) => <Time at={secret.created_at} /> },
  { header: 'Replaced', width: '6rem', cell: (secret) => <Time at={secret.updated_at} /> },
  {
    header: 'Change',
    width: '11rem',
    align: 'end',
    cell: (secret) => (
      <div className={styles.change}>
        <ReplaceButton secret={secret} />
        <DeleteButton name={secret.name} />
      </div>
    ),
  },
];

/** Deletes a secret, after a question. */
function DeleteButton({ name }: { readonly name: string }) {
  const api = useApi();
  const [isAsking, setAsking] = useState(false);
  const confirm = async (): Promise<void> => {
    await unwrapEmpty(api.DELETE('/secrets/{name}', { params: { path: { name } } }));
    showToast('good', `The secret ${name} is deleted.`);
  };
  return (
    <>
      <Button size="small" aria-label={`Delete ${name}`} onClick={() => setAsking(true)}>
        Delete
      </Button>
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={`Delete ${name}?`}
        confirmLabel="Delete"
        isDangerous
        refreshes="secrets"
        onConfirm={confirm}
      >
        <p>Runs that need it fail from now on. Its value cannot be restored.</p>
      </ConfirmDialog>
    </>
  );
}

/** Asks for another value of a secret. */
function ReplaceButton({ secret }: { readonly secret: Secret }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button size="small" aria-label={`Replace ${secret.name}`} onClick={() => setOpen(true)}>
        Replace
      </Button>
      {isOpen && <SecretDialog onClose={() => setOpen(false)} replaced={secret} />}
    </>
  );
}
