import { useState } from 'react';
import { unwrap } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { ConfirmDialog } from '../../components/feedback/confirm-dialog.js';
import { WorkerLink } from '../../components/values/named-links.js';
import { showToast } from '../../components/feedback/toasts.js';
import type { Worker } from './worker-view.js';

/** Drains a worker, or lets it go on, after a question. */
export function DrainButton({ worker: { id, draining } }: { readonly worker: Worker }) {
  const api = useApi();
  // What was asked stays what is done, also when another user drains the worker meanwhile.
  const [asked, setAsked] = useState<'drain' | 'resume'>();

  const confirm = async (): Promise<void> => {
    const params = { path: { worker_id: id } };
    await (asked === 'drain'
      ? unwrap(api.POST('/workers/{worker_id}/drain', { params }))
      : unwrap(api.POST('/workers/{worker_id}/resume', { params })));
    showToast(
      'good',
      <>
        <WorkerLink id={id} /> {asked === 'drain' ? 'takes no new runs.' : 'takes runs again.'}
      </>,
    );
  };
  return (
    <>
      <Button
        size="small"
        aria-label={draining ? `Resume ${id}` : `Drain ${id}`}
        onClick={() => setAsked(draining ? 'resume' : 'drain')}
      >
        {draining ? 'Resume' : 'Drain'}
      </Button>
      <ConfirmDialog
        isOpen={asked !== undefined}
        onClose={() => setAsked(undefined)}
        title={asked === 'resume' ? `Resume ${id}?` : `Drain ${id}?`}
        confirmLabel={asked === 'resume' ? 'Resume' : 'Drain'}
        refreshes="workers"
        onConfirm={confirm}
      >
        {asked === 'resume'
          ? 'The worker may claim runs again.'
          : 'The worker gets no new runs until it is resumed. It finishes its current runs.'}
      </ConfirmDialog>
    </>
  );
}
