import { useState } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi, type Run } from '../../api/use-api.js';
import { ConfirmDialog } from '../../components/feedback/dialog.js';
import { FormRows } from '../../run-form/form-rows.js';
import { fillForm, readForm } from '../../run-form/form-values.js';
import { RUN_NAME_ROWS } from '../../run-form/run-fields.js';
import styles from './form.module.css';

const FIELDS = RUN_NAME_ROWS.flat();

interface Props {
  readonly onClose: () => void;
  readonly run: Run;
}

/** Changes the name and the labels of a run, also of one that has ended. */
export function LabelsDialog({ onClose, run }: Props) {
  const api = useApi();
  // What the run had when the dialog was opened: what others change meanwhile is not overwritten.
  const [before] = useState(run);
  const [values, setValues] = useState(() => fillForm(FIELDS, { name: run.name, labels: run.labels }));
  const confirm = async (): Promise<void> => {
    const read = readForm(FIELDS, values);
    const problems = Object.values(read.errors);
    if (problems.length > 0) throw new Error(problems.join(' '));
    const { name = null, labels = {} }: { name?: string | null; labels?: Record<string, string> } = Object(
      read.body,
    );
    const removed = Object.keys(before.labels).filter((key) => !Object.hasOwn(labels, key));
    const changed = Object.entries(labels).filter(([key, value]) => before.labels[key] !== value);
    const body = {
      ...(name === before.name ? {} : { name }),
      labels: { ...Object.fromEntries(changed), ...Object.fromEntries(removed.map((key) => [key, null])) },
    };
    await unwrap(api.PATCH('/runs/{id}/labels', { params: { path: { id: run.id } }, body }));
  };
  return (
    <ConfirmDialog
      onClose={onClose}
      title="Name and labels"
      confirmLabel="Save"
      refreshes="runs"
      onConfirm={confirm}
    >
      <div className={styles.form}>
        <FormRows
          rows={RUN_NAME_ROWS}
          values={values}
          errors={{}}
          onChange={(path, value) => setValues((all) => ({ ...all, [path]: value }))}
        />
      </div>
    </ConfirmDialog>
  );
}
