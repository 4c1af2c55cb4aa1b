import { useState } from 'react';
import { unwrapEmpty } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { ConfirmDialog } from '../../components/feedback/confirm-dialog.js';
import { showToast } from '../../components/feedback/toasts.js';

/** Deletes a secret, after a question. */
export function DeleteButton({ name }: { readonly name: string }) {
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
