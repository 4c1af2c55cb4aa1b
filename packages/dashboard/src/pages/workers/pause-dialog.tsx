import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type FormEvent } from 'react';
import { ApiError, describeError, unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, Select, TextInput } from '../../components/controls/inputs.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import styles from './pause-dialog.module.css';

const KINDS = [
  ['all', 'All runs'],
  ['definition', 'Runs of definitions'],
  ['label', 'Runs with labels, as key or key=value'],
  ['selector', 'Runs that demand tags'],
  ['schedule', 'Runs of schedules'],
] as const;
type Kind = (typeof KINDS)[number][0];

/** Pauses runs by one kind of condition; the API takes several. */
export function PauseDialog({ onClose }: { readonly onClose: () => void }) {
  const api = useApi();
  const queries = useQueryClient();
  const [name, setName] = useState('');
  const [kind, setKind] = useState<Kind>('all');
  const [values, setValues] = useState('');
  const [reason, setReason] = useState('');
  const [until, setUntil] = useState('');
  const storing = useMutation({
    mutationFn: async () => {
      const where: Schemas['PauseConditionsInput'] =
        kind === 'all' ? { all: true } : { [kind]: values.split(',').map((value) => value.trim()) };
      const body = { where, reason, ...(until.trim() !== '' && { until: until.trim() }) };
      await unwrap(api.PUT('/pauses/{name}', { params: { path: { name: name.trim() } }, body }));
    },
    onSuccess: async () => {
      onClose();
      showToast('good', `The pause ${name.trim()} is set.`);
      await queries.invalidateQueries({ queryKey: ['pauses'] });
    },
  });
  const { error } = storing;
  const submit = (event: FormEvent): void => {
    event.preventDefault();
    if (!storing.isPending) storing.mutate();
  };
  return (
    <Dialog onClose={onClose} title="Pause runs">
      <form className={styles.form} onSubmit={submit} noValidate autoComplete="off">
        <p>Pending runs that match are not assigned. Runs in execution go on, and new runs are accepted.</p>
        <Field label="Name">
          {(control) => <TextInput {...control} mono value={name} onChange={setName} data-autofocus />}
        </Field>
        <Field label="Runs">
          {(control) => <Select {...control} value={kind} options={KINDS} onChange={setKind} />}
        </Field>
        {kind !== 'all' && (
          <Field label="Values" hint="Separated by commas; a run needs one of them.">
            {(control) => <TextInput {...control} mono value={values} onChange={setValues} />}
          </Field>
        )}
        <Field label="Reason" hint="Shown to those who ask why their runs wait.">
          {(control) => <TextInput {...control} maxLength={500} value={reason} onChange={setReason} />}
        </Field>
        <Field label="Until" hint="Optional: a span such as 2h, or a time such as 2030-01-31T09:00:00Z.">
          {(control) => <TextInput {...control} mono value={until} onChange={setUntil} />}
        </Field>
        <p className={styles.error} role="alert">
          {error !== null &&
            (error instanceof ApiError && error.errors.length > 0
              ? error.errors.join('\n')
              : describeError(error))}
        </p>
        <div className={styles.buttons}>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" type="submit" isBusy={storing.isPending}>
            Pause
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
