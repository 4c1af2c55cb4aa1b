import { useMutation } from '@tanstack/react-query';
import { useId, useState, type FormEvent } from 'react';
import { useLocation } from 'wouter';
import { describeError } from '../../api/api-error.js';
import { unwrap } from '../../api/unwrap.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { Field } from '../../components/controls/field.js';
import { TextArea, TextInput } from '../../components/controls/inputs.js';
import { RunLink } from '../../components/values/run-link.js';
import { showToast } from '../../components/feedback/toast-store.js';
import { describeLocal } from '../../lib/local-time.js';
import styles from './form.module.css';
import { readInteger, readObject, writeObject } from '../../lib/json-object.js';
import { copyOfDefinitionRun, copyOfRun, editableFields } from './rerun-body.js';
import type { Run } from './run-view.js';

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly run: Run;
}

/** Creates a run with the fields of this one, some of them edited, and opens its page. */
export function RerunDialog({ isOpen, onClose, run }: Props) {
  const form = useId();
  const [isBusy, setBusy] = useState(false);
  return (
    <Dialog
      isOpen={isOpen}
      onClose={onClose}
      title="Run again"
      width="wide"
      actions={
        <>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" type="submit" form={form} isBusy={isBusy}>
            Start a new run
          </Button>
        </>
      }
    >
      <RerunForm id={form} run={run} onClose={onClose} onBusy={setBusy} />
    </Dialog>
  );
}

interface FormProps {
  readonly id: string;
  readonly run: Run;
  readonly onClose: () => void;
  readonly onBusy: (isBusy: boolean) => void;
}

function RerunForm({ id, run, onClose, onBusy }: FormProps) {
  const api = useApi();
  const [, navigate] = useLocation();
  const { op_definition: definition, op_definition_version: version } = run;
  const original = editableFields(run);
  const [image, setImage] = useState(original.image);
  const [priority, setPriority] = useState(String(original.priority));
  const [inputs, setInputs] = useState(writeObject(original.inputs));
  const [constraints, setConstraints] = useState(writeObject(original.constraints));
  const [isChecked, setChecked] = useState(false);
  const typed = {
    priority: readInteger(priority),
    inputs: readObject(inputs),
    constraints: readObject(constraints),
  };
  const start = useMutation({
    mutationFn: (): Promise<Schemas['OpRun']> => {
      const edited = {
        image,
        inputs: typed.inputs.value ?? {},
        priority: typed.priority ?? 0,
        constraints: typed.constraints.value ?? {},
      };
      if (definition === null) return unwrap(api.POST('/runs', { body: copyOfRun(run, edited) }));
      const params = { path: { name: definition }, query: version === null ? {} : { version } };
      const body = copyOfDefinitionRun(run, edited);
      return unwrap(api.POST('/definitions/{name}/runs', { params, body }));
    },
    onSuccess: (made) => {
      onClose();
      showToast('good', queuedMessage(made));
      navigate(`/runs/${made.id}`);
    },
    onSettled: () => onBusy(false),
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    setChecked(true);
    const isRight =
      typed.priority !== undefined &&
      typed.inputs.problem === undefined &&
      typed.constraints.problem === undefined &&
      image !== '';
    if (!isRight || start.isPending) return;
    onBusy(true);
    start.mutate();
  };
  const shown = (error: string | undefined): string | undefined => (isChecked ? error : undefined);
  return (
    <form id={id} onSubmit={submit} className={styles.form} noValidate>
      {definition === null ? (
        <p>
          A new run of the same image, with the same retries, timeouts, environment, command, secrets,
          selector, concurrency key, outputs template and topic. It starts as soon as it can.
        </p>
      ) : (
        <p>
          A new run of the definition <strong>{definition}</strong> {version}: image and topic come from
          there, everything else from this run. It starts as soon as it can.
        </p>
      )}
      {typeof run.start_at === 'string' && (
        <p>The start time of this run, {describeLocal(run.start_at)}, is not taken over.</p>
      )}
      <Field label="Inputs" error={shown(typed.inputs.problem)}>
        {(control) => <TextArea {...control} rows={10} value={inputs} onChange={setInputs} data-autofocus />}
      </Field>
      <div className={styles.pair}>
        {definition === null && (
          <Field label="Image" error={shown(image === '' ? 'Name an image.' : undefined)}>
            {(control) => <TextInput {...control} mono value={image} onChange={setImage} />}
          </Field>
        )}
        <Field
          label="Priority"
          error={shown(typed.priority === undefined ? 'This has to be a whole number.' : undefined)}
        >
          {(control) => (
            <TextInput {...control} inputMode="numeric" value={priority} onChange={setPriority} />
          )}
        </Field>
      </div>
      {definition === null && (
        <Field label="Constraints" error={shown(typed.constraints.problem)}>
          {(control) => <TextArea {...control} rows={5} value={constraints} onChange={setConstraints} />}
        </Field>
      )}
      <p role="alert" className={styles.error}>
        {start.isError && describeError(start.error)}
      </p>
    </form>
  );
}

function queuedMessage({ id }: Run) {
  return (
    <>
      Run <RunLink id={id} /> is in the queue.
    </>
  );
}
