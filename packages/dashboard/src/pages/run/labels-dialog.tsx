import { useState } from 'react';
import { unwrap } from '../../api/unwrap.js';
import { useApi } from '../../api/use-api.js';
import { Field } from '../../components/controls/field.js';
import { TextInput } from '../../components/controls/inputs.js';
import { ConfirmDialog } from '../../components/feedback/confirm-dialog.js';
import { fillForm, pairsOf, readForm, textOf, type FormValues } from '../../run-form/form-values.js';
import { PairRows } from '../../run-form/pair-rows.js';
import { LABELS_FIELD, NAME } from '../../run-form/run-fields.js';
import styles from './form.module.css';
import type { Run } from './run-view.js';

const FIELDS = [NAME, LABELS_FIELD];

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  readonly run: Run;
}

/** Changes the name and the labels of a run, also of one that has ended. */
export function LabelsDialog(props: Props) {
  return props.isOpen ? <OpenDialog {...props} /> : null;
}

function OpenDialog({ isOpen, onClose, run }: Props) {
  const api = useApi();
  // What the run had when the dialog was opened: what others change meanwhile is not overwritten.
  const [before] = useState(run);
  const [values, setValues] = useState<FormValues>(() =>
    fillForm(FIELDS, { name: run.name, labels: run.labels }),
  );
  const set = (path: string, value: FormValues[string]): void =>
    setValues((all) => ({ ...all, [path]: value }));
  const confirm = async (): Promise<void> => {
    const read = readForm(FIELDS, values);
    if ('errors' in read) throw new Error(Object.values(read.errors).join(' '));
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
      isOpen={isOpen}
      onClose={onClose}
      title="Name and labels"
      confirmLabel="Save"
      refreshes="runs"
      onConfirm={confirm}
    >
      <div className={styles.form}>
        <Field label={NAME.label} hint={NAME.hint}>
          {(control) => (
            <TextInput
              {...control}
              value={textOf(values, NAME.path)}
              onChange={(text) => set(NAME.path, text)}
            />
          )}
        </Field>
        <PairRows
          label={LABELS_FIELD.label}
          hint={LABELS_FIELD.hint}
          error={undefined}
          pairs={pairsOf(values, LABELS_FIELD.path)}
          onChange={(pairs) => set(LABELS_FIELD.path, pairs)}
        />
      </div>
    </ConfirmDialog>
  );
}
