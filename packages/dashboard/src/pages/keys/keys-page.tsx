import { useState } from 'react';
import { Link } from 'wouter';
import { unwrapEmpty } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { EmptyState } from '../../components/feedback/empty-state.js';
import { showToast } from '../../components/feedback/toasts.js';
import type { Column } from '../../components/table/data-table.js';
import { Badge, type Tone } from '../../components/values/badge.js';
import { Time } from '../../components/values/time.js';
import { useNow } from '../../lib/clock.js';
import { useSession } from '../../session/session-context.js';
import { ListPage } from '../../shell/list-page.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { CreateKeyDialog } from './create-key-dialog.js';
import styles from './keys-page.module.css';

const ROW_HEIGHT = { line: 52, card: 210 };
const EVERY_MS = 5000;

/** The API keys in the database: who may do what, until when. */
export default function KeysPage() {
  const api = useApi();
  const [isCreating, setCreating] = useState(false);
  useShortcut('n', 'New key', () => setCreating(true));
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
        renderEmpty={(isFirst) => (
          <EmptyState
            icon="keys"
            title={isFirst ? 'No key has been made yet' : 'There are no older keys'}
            action={<Button onClick={() => setCreating(true)}>New key</Button>}
          >
            Give every client and every worker a key of its own, with no more than it needs.
          </EmptyState>
        )}
        paged="keys"
        counted="keys, newest first"
      />
      {isCreating && <CreateKeyDialog onClose={() => setCreating(false)} />}
    </>
  );
}

const TONES: Readonly<Record<KeyState, Tone>> = { active: 'good', expired: 'warn', revoked: 'neutral' };

const KEY_COLUMNS: readonly Column<ApiKey>[] = [
  {
    header: 'Name',
    width: 'minmax(9rem, 2fr)',
    card: 'title',
    cell: (key) => (
      <>
        <span className={styles.name} title={key.name}>
          {key.name}
        </span>
        <code className={styles.prefix}>{key.prefix}…</code>
      </>
    ),
  },
  { header: 'State', width: 'minmax(6rem, 0.8fr)', cell: (key) => <State apiKey={key} /> },
  { header: 'Scopes', width: 'minmax(5rem, 1fr)', cell: ScopesOf },
  {
    header: 'Last used',
    width: '5.25rem',
    cell: (key) => <Time at={key.last_used_at} absent="never" />,
  },
  {
    header: 'Expires',
    width: '5.25rem',
    cell: (key) => <Time at={key.expires_at} absent="never" />,
  },
  { header: 'Created', width: '5.25rem', cell: (key) => <Time at={key.created_at} /> },
  {
    header: 'Revoke',
    width: '5rem',
    align: 'end',
    cell: (key) => (key.revoked_at === null ? <RevokeButton apiKey={key} /> : <Time at={key.revoked_at} />),
  },
];

/** The scopes, and the workers, tags and capabilities to which the key is bound. */
function ScopesOf({
  scopes,
  worker_ids: workerIds,
  worker_tags: tags,
  worker_capabilities: capabilities,
}: ApiKey) {
  const bindings = [
    ...(workerIds === null ? [] : [workerIds.join(', ')]),
    ...(tags === null ? [] : [`tags ${tags.join(', ') || 'none'}`]),
    ...(capabilities === null ? [] : [`capabilities ${capabilities.join(', ') || 'none'}`]),
  ];
  return [scopes.join(', '), ...(bindings.length === 0 ? [] : [bindings.join('; ')])].join(': ');
}

function State({ apiKey }: { readonly apiKey: ApiKey }) {
  const now = useNow();
  const session = useSession();
  const state = stateOf(apiKey, now);
  return (
    <>
      <Badge tone={TONES[state]}>{state}</Badge>
      {isOwn(apiKey, session) && <span className={styles.own}>your key</span>}
    </>
  );
}

/** Revokes a key for good, after a question. */
function RevokeButton({ apiKey }: { readonly apiKey: ApiKey }) {
  const { id, name, prefix } = apiKey;
  const api = useApi();
  const isOfThisTab = isOwn(apiKey, useSession());
  const [isAsking, setAsking] = useState(false);

  const confirm = async (): Promise<void> => {
    await unwrapEmpty(api.DELETE('/api-keys/{id}', { params: { path: { id } } }));
    showToast('good', 'The key ', <Link href="/keys">{name}</Link>, ' is revoked.');
  };
  return (
    <>
      <Button size="small" aria-label={`Revoke ${name} (${prefix}…)`} onClick={() => setAsking(true)}>
        Revoke
      </Button>
      <ConfirmDialog
        isOpen={isAsking}
        onClose={() => setAsking(false)}
        title={`Revoke ${name}?`}
        confirmLabel="Revoke"
        isDangerous
        // With one's own key this is refused, and the session ends.
        refreshes={isOfThisTab ? 'whoami' : 'api-keys'}
        onConfirm={confirm}
      >
        <p>
          Requests with <code>{prefix}…</code> are refused within 5 seconds. This cannot be undone.
        </p>
        {isOfThisTab && (
          <p className={styles.warning}>
            This is the key you are signed in with: you will be signed out, and need another one to come back.
          </p>
        )}
      </ConfirmDialog>
    </>
  );
}

/** An API key as the API has it. */
type ApiKey = Schemas['ApiKey'];

type KeyState = 'active' | 'expired' | 'revoked';

/** @param now milliseconds since 1970, by the service's clock */
function stateOf({ revoked_at: revokedAt, expires_at: expiresAt }: ApiKey, now: number): KeyState {
  if (revokedAt !== null) return 'revoked';
  return expiresAt !== null && Date.parse(expiresAt) <= now ? 'expired' : 'active';
}

/** Whether it is the key of the present session: the tab knows the key itself, the list its beginning. */
function isOwn(
  { name, prefix }: ApiKey,
  session: { readonly name: string; readonly apiKey: string },
): boolean {
  return session.name === name && session.apiKey.startsWith(prefix);
}
