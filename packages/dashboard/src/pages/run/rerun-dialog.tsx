import { useMutation } from '@tanstack/react-query';
import { useId, type FormEvent } from 'react';
import { useLocation } from 'wouter';
import { unwrap } from '../../api/answers.js';
import { useApi, type Run, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { RunLink } from '../../components/values/named-links.js';
import { givenFiles } from '../../files/file-refs.js';
import { describeLocal } from '../../lib/local-time.js';
import { FormRows } from '../../run-form/form-rows.js';
import { fillForm, type FormField, type Json } from '../../run-form/form-values.js';
import { requestedOf } from '../../run-form/run-fields.js';
import { useRunForm } from '../../run-form/use-run-form.js';
import styles from './form.module.css';
import { GivenFiles } from './run-files.js';

const JSON_NEEDED = 'Enter a JSON object, such as {"a": 1}.';
const INPUTS: FormField = {
  path: 'inputs',
  kind: 'object',
  label: 'Inputs',
  required: JSON_NEEDED,
  rows: 10,
};
const IMAGE: FormField = { path: 'image', kind: 'text', label: 'Image', required: 'Name an image.' };
const PRIORITY: FormField = {
  path: 'priority',
  kind: 'integer',
  label: 'Priority',
  required: 'This has to be a whole number.',
};
const CONSTRAINTS: FormField = {
  path: 'constraints',
  kind: 'object',
  label: 'Constraints',
  required: JSON_NEEDED,
};

interface Props {
  readonly onClose: () => void;
  readonly run: Run;
}

/** Creates a run like this one, which has ended, with the fields that are edited, and opens its page. */
export function RerunDialog({ onClose, run }: Props) {
  const formId = useId();
  const api = useApi();
  const [, navigate] = useLocation();
  const { op_definition: definition, op_definition_version: version } = run;
  const rows = definition === null ? [[INPUTS], [IMAGE, PRIORITY], [CONSTRAINTS]] : [[INPUTS], [PRIORITY]];
  const fields = rows.flat();
  const files = givenFiles(run);
  const initial = fillForm(fields, { ...run, constraints: askedConstraints(run) });
  const start = useMutation({
    mutationFn: (changes: Json): Promise<Schemas['OpRun']> =>
      unwrap(api.POST('/runs/{id}/rerun', { params: { path: { id: run.id } }, body: { changes } })),
    onSuccess: (made) => {
      onClose();
      noteQueued(made);
      navigate(`/runs/${made.id}`);
    },
  });
  const form = useRunForm({
    fields,
    initial,
    refusal: start.error,
    onEdit: start.reset,
  });
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    const entered = form.read();
    if (entered === undefined || start.isPending) return;
    const edited = fields.filter(({ path }) => form.values[path] !== initial[path]);
    start.mutate(Object.fromEntries(edited.map(({ path }) => [path, entered[path]])));
  };
  return (
    <Dialog
      onClose={onClose}
      title="Run again"
      width="wide"
      actions={
        <>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" type="submit" form={formId} isBusy={start.isPending}>
            Start a new run
          </Button>
        </>
      }
    >
      <form id={formId} onSubmit={submit} className={styles.form} noValidate>
        {definition === null ? (
          <p>
            A new run of the same image, with the same retries, timeouts, environment, command, secrets,
            selector, concurrency key, outputs template and topic. It starts as soon as it can.
          </p>
        ) : (
          <p>
            A new run of the definition <strong>{definition}</strong> {version}: what was asked for this run
            is asked for again, everything else comes from there. It starts as soon as it can.
          </p>
        )}
        {typeof run.start_at === 'string' && (
          <p>The start time of this run, {describeLocal(run.start_at)}, is not taken over.</p>
        )}
        <FormRows rows={rows} focus="inputs" {...form} />
        {files.length > 0 && (
          <section>
            <h3>Files that it gets</h3>
            <GivenFiles files={files} />
          </section>
        )}
        <p role="alert" className={styles.error}>
          {form.rest}
        </p>
      </form>
    </Dialog>
  );
}

/** The constraints that the run was created with; its attempts may have more. */
function askedConstraints({ constraints, execution_summary: { asked_ram_mb: ramMb } }: Run) {
  return { ...requestedOf(constraints), ...(ramMb !== undefined && { ram_mb: ramMb }) };
}

function noteQueued({ id }: Run): void {
  showToast('good', 'Run ', <RunLink id={id} />, ' is in the queue.');
}
