import type { RunState } from '@longshore/client/constants';
import { useState } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi, type Run, type Schemas } from '../../api/use-api.js';
import { Checkbox, Field, Select, TextArea, TextInput } from '../../components/controls/inputs.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { RunLink } from '../../components/values/named-links.js';
import { readForm, type FormField } from '../../run-form/form-values.js';
import styles from './form.module.css';

const EFFECTS: Readonly<Record<RunState, string>> = {
  PENDING: 'The run goes back into the queue: the next worker that fits claims it.',
  ASSIGNED: 'The run is ASSIGNED; the first worker that reports its start gets it.',
  RUNNING: 'The run is RUNNING; the first worker that reports its start gets it.',
  COMPLETED: 'The run ends as completed; its worker stops the container. Only a retry changes it again.',
  FAILED: 'The run ends as failed, whatever retries are left; its worker stops the container.',
  CANCELLED: 'The run ends as cancelled; its worker stops the container.',
};
const OPTIONS = [
  ['', 'Leave as it is'],
  ...Object.keys(EFFECTS).map((state) => [state, state.toLowerCase()] as const),
] as const satisfies readonly (readonly [string, string])[];

const PRIORITY: FormField = {
  path: 'priority',
  kind: 'integer',
  label: 'Priority',
  required: 'The priority must be a whole number.',
};
const OUTPUTS: FormField = {
  path: 'outputs',
  kind: 'object',
  label: 'Outputs',
  required: 'Enter a JSON object, such as {"a": 1}.',
};

interface Props {
  readonly onClose: () => void;
  readonly run: Run;
}

/** Lets an admin set state, priority and outputs past the rules, and says what that does. */
export function ChangeDialog({ onClose, run }: Props) {
  const api = useApi();
  const [state, setState] = useState('');
  const [priority, setPriority] = useState(String(run.priority));
  const [hasOutputs, setHasOutputs] = useState(false);
  const [outputs, setOutputs] = useState(JSON.stringify(run.outputs, null, 2));
  // What the run had when the dialog was opened: what others change meanwhile is not overwritten.
  const [before] = useState(run);
  const wanted = Object.keys(EFFECTS).find((name): name is RunState => name === state);
  const confirm = async (): Promise<void> => {
    const { body, errors } = readForm(hasOutputs ? [PRIORITY, OUTPUTS] : [PRIORITY], { priority, outputs });
    const problems = Object.values(errors);
    if (problems.length > 0) throw new Error(problems.join(' '));
    const change: Schemas['OpRunUpdate'] = { ...body, ...(wanted === undefined ? {} : { state: wanted }) };
    if (change.priority === before.priority) delete change.priority;
    if (Object.keys(change).length === 0) throw new Error('Nothing is changed yet.');
    const params = { path: { id: run.id } };
    await unwrap(api.PATCH('/runs/{id}', { params, body: change }));
    showToast('good', 'Run ', <RunLink id={run.id} />, ' is changed.');
  };
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Change this run directly?"
      confirmLabel="Change the run"
      isDangerous
      refreshes="runs"
      onConfirm={confirm}
    >
      <div className={styles.form}>
        <p>
          For emergencies. It writes no event: the timeline and the feed say nothing about it. The audit log
          keeps who did it and when.
        </p>
        <Field
          label="State"
          hint={wanted === undefined ? `It is ${run.state.toLowerCase()}.` : EFFECTS[wanted]}
        >
          {(control) => <Select {...control} value={state} options={OPTIONS} onChange={setState} />}
        </Field>
        <Field label="Priority" hint="Higher is claimed first.">
          {(control) => (
            <TextInput {...control} inputMode="numeric" value={priority} onChange={setPriority} />
          )}
        </Field>
        <Checkbox isChecked={hasOutputs} onChange={setHasOutputs}>
          Replace the outputs as a whole
        </Checkbox>
        {hasOutputs && (
          <Field label="Outputs">
            {(control) => <TextArea {...control} rows={6} value={outputs} onChange={setOutputs} />}
          </Field>
        )}
      </div>
    </ConfirmDialog>
  );
}
