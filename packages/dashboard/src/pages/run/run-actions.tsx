import { useState } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi, type Run } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Checkbox } from '../../components/controls/inputs.js';
import { ReasonField } from '../../components/controls/reason-field.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { RunLink } from '../../components/values/named-links.js';
import { useSession } from '../../session/session-context.js';
import { useShortcut } from '../../shell/shortcuts.js';
import { ChangeDialog } from './change-dialog.js';
import { LabelsDialog } from './labels-dialog.js';
import { RerunDialog } from './rerun-dialog.js';
import { isEnded } from './run-view.js';

type Question = 'cancel' | 'retry' | 'again' | 'change' | 'labels';

/** What may be done to a run, as far as the key allows it. */
export function RunActions({ run }: { readonly run: Run }) {
  const { may } = useSession();
  const [asked, setAsked] = useState<Question>();
  const mayAct = may('client');
  const mayCancel = mayAct && !isEnded(run);
  return (
    <>
      {mayAct && <Shortcuts onAsk={setAsked} mayCancel={mayCancel} mayRerun={isEnded(run)} />}
      {mayAct && (
        <>
          <Button size="small" disabled={!isEnded(run)} onClick={() => setAsked('again')}>
            Run again
          </Button>
          <Button size="small" onClick={() => setAsked('retry')}>
            Retry
          </Button>
          <Button size="small" onClick={() => setAsked('labels')}>
            Labels
          </Button>
        </>
      )}
      {may() && (
        <Button size="small" onClick={() => setAsked('change')}>
          Change
        </Button>
      )}
      {mayAct && (
        <Button size="small" disabled={!mayCancel} onClick={() => setAsked('cancel')}>
          Cancel
        </Button>
      )}
      <Questions run={run} asked={asked} onClose={() => setAsked(undefined)} />
      {asked === 'again' && <RerunDialog onClose={() => setAsked(undefined)} run={run} />}
      {asked === 'labels' && <LabelsDialog onClose={() => setAsked(undefined)} run={run} />}
      {asked === 'change' && <ChangeDialog onClose={() => setAsked(undefined)} run={run} />}
    </>
  );
}

interface ShortcutsProps {
  readonly mayCancel: boolean;
  readonly mayRerun: boolean;
  readonly onAsk: (question: Question) => void;
}

function Shortcuts({ mayCancel, mayRerun, onAsk }: ShortcutsProps) {
  useShortcut('c', 'Cancel the run', () => {
    if (mayCancel) onAsk('cancel');
  });
  useShortcut('r', 'Retry the run', () => onAsk('retry'));
  useShortcut('a', 'Run again with other inputs', () => {
    if (mayRerun) onAsk('again');
  });
  return null;
}

interface QuestionsProps {
  readonly run: Run;
  readonly asked: Question | undefined;
  readonly onClose: () => void;
}

function Questions({ run, asked, onClose }: QuestionsProps) {
  const api = useApi();
  const [reason, setReason] = useState('');
  const [dependents, setDependents] = useState(false);
  const params = { path: { id: run.id } };
  const cancel = async (): Promise<void> => {
    await unwrap(
      api.POST('/runs/{id}/cancel', {
        params,
        ...(reason.trim() === '' ? {} : { body: { reason: reason.trim() } }),
      }),
    );
    showToast('good', 'Run ', <RunLink id={run.id} />, ' is cancelled.');
  };
  const retry = async (): Promise<void> => {
    const { current_attempt: attempt } = await unwrap(
      api.POST('/runs/{id}/retry', { params: { ...params, ...(dependents && { query: { dependents } }) } }),
    );
    showToast('good', `Attempt ${attempt} of run `, <RunLink id={run.id} />, ' is in the queue.');
  };
  return (
    <>
      <ConfirmDialog
        isOpen={asked === 'cancel'}
        onClose={onClose}
        title="Cancel this run?"
        confirmLabel="Cancel the run"
        isDangerous
        refreshes="runs"
        onConfirm={cancel}
      >
        {run.state === 'PENDING'
          ? 'No worker will get it.'
          : 'The worker stops the container within seconds. The log is kept.'}
        <ReasonField value={reason} onChange={setReason} />
      </ConfirmDialog>
      <ConfirmDialog
        isOpen={asked === 'retry'}
        onClose={onClose}
        title="Retry this run?"
        confirmLabel={`Open attempt ${run.current_attempt + 1}`}
        refreshes="runs"
        onConfirm={retry}
      >
        {isEnded(run)
          ? `It opens attempt ${run.current_attempt + 1} of this run, with the same inputs, and puts it into the queue. The attempts before stay as they are.`
          : `Attempt ${run.current_attempt} has not ended. This ends it and opens attempt ${run.current_attempt + 1} of this run, with the same inputs. A container that works on it is stopped.`}
        <Checkbox isChecked={dependents} onChange={setDependents}>
          And what it had cancelled: once it is completed, open again the runs that waited for it
        </Checkbox>
      </ConfirmDialog>
    </>
  );
}
