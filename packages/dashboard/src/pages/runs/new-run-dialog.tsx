import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useRef, useState } from 'react';
import { ApiError, describeError } from '../../api/api-error.js';
import { unwrap } from '../../api/unwrap.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/button.js';
import { Dialog } from '../../components/dialog.js';
import { Field } from '../../components/field.js';
import { TextArea, TextInput } from '../../components/inputs.js';
import { RunLink } from '../../components/run-link.js';
import { showToast } from '../../components/toast-store.js';
import { newKey } from '../../lib/new-key.js';
import styles from './new-run-dialog.module.css';
import {
  EMPTY_FORM,
  placeErrors,
  problemOfInputs,
  readForm,
  type FieldErrors,
  type NewRunField,
  type NewRunForm,
} from './new-run-form.js';

/** Fields of one line each, with what holds when they are left empty. */
const ROWS: readonly (readonly (readonly [field: NewRunField, label: string, hint: string])[])[] = [
  [
    ['priority', 'Priority', 'Higher goes first; default 0'],
    ['max_attempts', 'Attempts', 'Attempts that may fail; default 1'],
    ['backoff_s', 'Retry pause in s', 'Doubled each time; default 0'],
  ],
  [
    ['cpu', 'CPUs', 'Any unless given'],
    ['ram_mb', 'RAM in MB', 'Any unless given'],
    ['vram_mb', 'GPU memory in MB', 'No GPU unless given'],
  ],
  [
    ['start_within_s', 'Start within, in s', 'Else the run fails; default: no limit'],
    ['attempt_s', 'Attempt timeout in s', 'Longest attempt; default: no limit'],
  ],
];

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Offered to choose from. */
  readonly images: readonly string[];
}

/** Creates a run of an image. */
export function NewRunDialog({ isOpen, onClose, images }: Props) {
  const formId = useId();
  const [form, setForm] = useState<NewRunForm>(EMPTY_FORM);
  const [errors, setErrors] = useState<FieldErrors>({});
  const create = useCreateRun(() => {
    setForm(EMPTY_FORM);
    onClose();
  });
  const refused = create.error instanceof ApiError ? placeErrors(create.error.errors) : undefined;
  const shown: FieldErrors = { ...refused?.fields, ...errors };
  const rest = restOf(create.error, refused);

  const change = (field: NewRunField) => (value: string) => {
    setForm((now) => ({ ...now, [field]: value }));
    setErrors((now) => ({ ...now, [field]: undefined }));
    create.reset();
  };
  const submit = (): void => {
    const read = readForm(form);
    setErrors('errors' in read ? read.errors : {});
    if ('body' in read) create.mutate(read.body);
  };
  return (
    <Dialog
      isOpen={isOpen}
      onClose={onClose}
      title="New run"
      width="wide"
      actions={
        <>
          <Button onClick={onClose}>Back</Button>
          <Button kind="primary" type="submit" form={formId} isBusy={create.isPending}>
            Create run
          </Button>
        </>
      }
    >
      <form
        id={formId}
        className={styles.form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (!create.isPending) submit();
        }}
      >
        <Field label="Image" error={shown.image}>
          {(control) => (
            <>
              <TextInput
                {...control}
                mono
                required
                data-autofocus
                list={`${formId}-images`}
                placeholder="longshore/word-count"
                autoComplete="off"
                value={form.image}
                onChange={change('image')}
              />
              <datalist id={`${formId}-images`}>
                {images.map((image) => (
                  <option key={image} value={image}>
                    {image}
                  </option>
                ))}
              </datalist>
            </>
          )}
        </Field>
        <Field
          label="Inputs"
          hint="A JSON object; the container reads it from its input file."
          error={shown.inputs}
        >
          {(control) => (
            <TextArea
              {...control}
              rows={7}
              value={form.inputs}
              onChange={change('inputs')}
              onKeyDown={(event) => {
                if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit();
              }}
              onBlur={() => {
                const problem = problemOfInputs(form.inputs);
                if (problem !== undefined) setErrors((now) => ({ ...now, inputs: problem }));
              }}
            />
          )}
        </Field>
        {ROWS.map((row) => (
          <div key={row[0]?.[0]} className={styles.row}>
            {row.map(([field, label, hint]) => (
              <Field key={field} label={label} hint={hint} error={shown[field]}>
                {(control) => (
                  <TextInput
                    {...control}
                    inputMode="numeric"
                    autoComplete="off"
                    value={form[field]}
                    onChange={change(field)}
                  />
                )}
              </Field>
            ))}
          </div>
        ))}
        <Field label="Topic" hint="The feed of the run's events; optional." error={shown.topic}>
          {(control) => (
            <TextInput {...control} autoComplete="off" value={form.topic} onChange={change('topic')} />
          )}
        </Field>
        <p role="alert" className={styles.error}>
          {rest}
        </p>
      </form>
    </Dialog>
  );
}

function useCreateRun(onCreated: () => void) {
  const api = useApi();
  const queries = useQueryClient();
  // The same body after a lost answer is the same run, not a second one.
  const sent = useRef({ text: '', key: '' });
  return useMutation({
    mutationFn: (body: Schemas['OpRunCreate']) => {
      const text = JSON.stringify(body);
      if (sent.current.text !== text) sent.current = { text, key: newKey() };
      const params = { header: { 'Idempotency-Key': sent.current.key } };
      return unwrap(api.POST('/runs', { body, params }));
    },
    onSuccess: async ({ id }) => {
      sent.current = { text: '', key: '' };
      showToast(
        'good',
        <>
          Created run <RunLink id={id} />.
        </>,
      );
      onCreated();
      await queries.invalidateQueries({ queryKey: ['runs'] });
    },
  });
}

/** What no field shows. */
function restOf(error: unknown, refused: ReturnType<typeof placeErrors> | undefined): string {
  if (error === null) return '';
  if (refused === undefined) return describeError(error);
  if (error instanceof ApiError && error.errors.length === 0) return error.detail;
  return refused.rest.join('\n');
}
