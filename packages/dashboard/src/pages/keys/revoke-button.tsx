import { useState } from 'react';
import { Link } from 'wouter';
import { unwrapEmpty } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { ConfirmDialog } from '../../components/feedback/confirm-dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { useSession } from '../../session/session-context.js';
import styles from './keys-page.module.css';
import { isOwn, type ApiKey } from './key-view.js';

/** Revokes a key for good, after a question. */
export function RevokeButton({ apiKey }: { readonly apiKey: ApiKey }) {
  const { id, name, prefix } = apiKey;
  const api = useApi();
  const isOfThisTab = isOwn(apiKey, useSession());
  const [isAsking, setAsking] = useState(false);

  const confirm = async (): Promise<void> => {
    await unwrapEmpty(api.DELETE('/api-keys/{id}', { params: { path: { id } } }));
    showToast(
      'good',
      <>
        The key <Link href="/keys">{name}</Link> is revoked.
      </>,
    );
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
