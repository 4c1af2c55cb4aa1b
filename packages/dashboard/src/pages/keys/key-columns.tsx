import { Badge, type Tone } from '../../components/values/badge.js';
import type { Column } from '../../components/table/data-table.js';
import { Time } from '../../components/values/time.js';
import { useNow } from '../../lib/clock.js';
import { useSession } from '../../session/session-context.js';
import styles from './keys-page.module.css';
import { isOwn, stateOf, type ApiKey, type KeyState } from './key-view.js';
import { RevokeButton } from './revoke-button.js';

const TONES: Readonly<Record<KeyState, Tone>> = { active: 'good', expired: 'warn', revoked: 'neutral' };

export const KEY_COLUMNS: readonly Column<ApiKey>[] = [
  {
    id: 'name',
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
  { id: 'state', header: 'State', width: 'minmax(6rem, 0.8fr)', cell: (key) => <State apiKey={key} /> },
  { id: 'scopes', header: 'Scopes', width: 'minmax(5rem, 1fr)', cell: ScopesOf },
  {
    id: 'used',
    header: 'Last used',
    width: '5.25rem',
    cell: (key) => <Time at={key.last_used_at} absent="never" />,
  },
  {
    id: 'expires',
    header: 'Expires',
    width: '5.25rem',
    cell: (key) => <Time at={key.expires_at} absent="never" />,
  },
  { id: 'created', header: 'Created', width: '5.25rem', cell: (key) => <Time at={key.created_at} /> },
  {
    id: 'revoke',
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
