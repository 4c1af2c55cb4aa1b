import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useId, useRef } from 'react';
import { unwrap } from '../../api/answers.js';
import { useApi, type Schemas } from '../../api/use-api.js';
import { Button } from '../../components/controls/button.js';
import { Field, Suggestions, TextArea, TextInput } from '../../components/controls/inputs.js';
import { Dialog } from '../../components/feedback/dialog.js';
import { showToast } from '../../components/feedback/toasts.js';
import { RunLink } from '../../components/values/named-links.js';
import { newKey } from '../../lib/new-key.js';
import { Advanced, FormRows } from '../../run-form/form-rows.js';
import { textOf, type FormField, type FormValues } from '../../run-form/form-values.js';
import {
  ADVANCED_RUN_ROWS,
  IMAGE,
  INPUTS,
  PRIORITY,
  RESOURCE_ROW,
  RETRY_ROW,
  RUN_NAME_ROWS,
  TIMEOUT_ROW,
  TOPIC,
} from '../../run-form/run-fields.js';
import { useRunForm } from '../../run-form/use-run-form.js';
import styles from './new-run-dialog.module.css';

const NEEDED_IMAGE: FormField = { ...IMAGE, required: 'Name a container image.' };
const ROWS = [...RUN_NAME_ROWS, [PRIORITY], RETRY_ROW, RESOURCE_ROW, TIMEOUT_ROW, [TOPIC]];
const FIELDS = [NEEDED_IMAGE, INPUTS, ...ROWS.flat(), ...ADVANCED_RUN_ROWS.flat()];
const EMPTY: FormValues = { inputs: '{}' };

interface Props {
  readonly isOpen: boolean;
  readonly onClose: () => void;
  /** Offered to choose from. */
  readonly images: readonly string[];
}

/** Creates a run of an image. What was entered stays while the dialog is closed. */
export function NewRunDialog({ isOpen, onClose, images }: Props) {
  const formId = useId();
  const create = useCreateRun();
  const form = useRunForm({ fields: FIELDS, initial: EMPTY, refusal: create.error, onEdit: create.reset });
  const { values, errors, onChange } = form;
  const submit = (): void => {
    const body = form.read();
    if (body === undefined) return;
    const onSuccess = (): void => {
      form.set(EMPTY);
      onClose();
    };
    create.mutate({ inputs: {}, image: '', ...body }, { onSuccess });
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
        <Field label={IMAGE.label} error={errors['image']}>
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
                value={textOf(values, 'image')}
                onChange={(text) => onChange('image', text)}
              />
              <Suggestions id={`${formId}-images`} texts={images} />
            </>
          )}
        </Field>
        <Field label={INPUTS.label} hint={INPUTS.hint} error={errors['inputs']}>
          {(control) => (
            <TextArea
              {...control}
              rows={7}
              value={textOf(values, 'inputs')}
              onChange={(text) => onChange('inputs', text)}
              onKeyDown={(event) => {
                if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit();
              }}
              onBlur={() => form.check('inputs')}
            />
          )}
        </Field>
        <FormRows rows={ROWS} {...form} />
        <Advanced rows={ADVANCED_RUN_ROWS} {...form} />
        <p role="alert" className={styles.error}>
          {form.rest}
        </p>
      </form>
    </Dialog>
  );
}

function useCreateRun() {
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
      showToast('good', 'Created run ', <RunLink id={id} />, '.');
      await queries.invalidateQueries({ queryKey: ['runs'] });
    },
  });
}
